"""What happens while a model is constructed: which random values it draws and which tensors it registers.

A model may be constructed again with hidden values. Random draws then start from a seed that depends on the shape
that is drawn and on how many of that shape came before, so another order of creation makes no difference; and chosen
parameters and buffers hold given values from their registration on, whatever the constructor does with them after it:
what initialises, copies, projects or prunes them is undone. What it computes from them follows by itself.

All of this runs in the untrusted process and needs no trust: a model that undoes it has other parameters than the
reference, and other outputs.
"""

from __future__ import annotations

import contextlib
import hashlib
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.nn.modules import module as hooks

from kernelrl.executor import trees
from kernelrl.executor.contest.operator_mode import OperatorMode
from kernelrl.executor.contest.seeding import seed_torch
from kernelrl.executor.contest.values import real

_FILLS = frozenset(
    "empty zeros ones full zero_ fill_ new_empty new_zeros new_ones new_full empty_like zeros_like ones_like full_like "
    "empty_strided".split()
)
"""Operators that make all elements equal."""
_COPIES = frozenset("clone _to_copy repeat copy_".split())
"""Operators of which the result is filled if their tensors are."""


class Construction(OperatorMode):  # type: ignore[no-untyped-call]
    """Watches one constructor.

    Args:
        hidden: the seed of the hidden random draws; None: draws are as the program makes them.
        given: values for some registered tensors, by the number of the registration.
    """

    def __init__(self, hidden: str | None, given: Mapping[int, torch.Tensor]):
        super().__init__()
        self._hidden = hidden
        self._given = given
        self._counts: Counter[tuple[int, ...]] = Counter()
        self._held: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # by storage: a tensor and its given values
        self._numbers: dict[int, int] = {}  # of the registration, by the tensor's id
        self._places: dict[tuple[torch.nn.Module, str], int] = {}  # the last one, by the module and the name in it
        self._fixed: set[int] = set()  # numbers of parameters that were registered without a gradient
        self._random: set[int] = set()  # storages with values that come from a draw
        self._filled: set[int] = set()  # storages that nothing but a fill has written
        self.draws: list[int] = []
        """Checksum of each random draw."""
        self.registered: list[tuple[str, torch.Tensor]] = []
        """Each parameter or buffer, with its kind, in the order of registration."""
        self.values: list[torch.Tensor] = []
        """What they held when the report was made, wherever the model has gone since."""

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Construct within this context, and then call `finish`."""
        handles = [
            hooks.register_module_parameter_registration_hook(self._on_parameter),
            hooks.register_module_buffer_registration_hook(self._on_buffer),
            hooks.register_module_module_registration_hook(self._on_module),
        ]
        try:
            with self:
                yield
        finally:
            for handle in handles:
                handle.remove()

    def finish(self, model: Any) -> None:
        """Find the tensors that the finished model holds without having registered them, and give values to them.

        A conversion (`.to(dtype)`) puts others in the place of a module's buffers.
        """
        held: dict[tuple[torch.nn.Module, str], tuple[str, torch.Tensor | None]] = {}
        for module in model.modules() if isinstance(model, torch.nn.Module) else ():
            held |= {(module, name): ("parameter", tensor) for name, tensor in module._parameters.items()}
            held |= {(module, name): ("buffer", tensor) for name, tensor in module._buffers.items()}
        named = {id(tensor) for _, tensor in held.values()}
        for place, (kind, tensor) in held.items():
            number = self._places.get(place)
            if tensor is None or id(tensor) in self._numbers:
                continue
            if number is not None and id(self.registered[number][1]) not in named:
                self._numbers[id(tensor)] = number
                self.registered[number] = kind, tensor
            else:
                self._register(place, kind, tensor)
        self._hold()

    def report(self, model: Any) -> dict[str, Any]:
        """Checksums of the draws, and of each registered tensor its name in the model, kind, origin and values.

        `fixed` parameters were registered without a gradient, `frozen` ones have none in the end; a `shared` tensor
        lies in the memory of another one of the model's.
        """
        names: dict[int, str] = {}
        if isinstance(model, torch.nn.Module):
            for found in (model.named_parameters(), model.named_buffers()):
                names |= {id(tensor): name for name, tensor in found}
        self.values = [real(tensor.detach()) for _, tensor in self.registered]
        owners: dict[int, int] = {}
        for number, (_, tensor) in enumerate(self.registered):
            if id(tensor) in names:
                owners.setdefault(_storage(tensor), number)
        tensors = [
            trees.describe(real(tensor.detach()))
            | {"name": names.get(id(tensor)), "kind": kind, "origin": self._origin(tensor), "sum": _checksum(tensor)}
            | {"fixed": number in self._fixed, "frozen": not tensor.requires_grad}
            | {"shared": owners.get(_storage(tensor), number) != number}
            for number, (kind, tensor) in enumerate(self.registered)
        ]
        return {"draws": self.draws, "tensors": tensors}

    def _origin(self, tensor: torch.Tensor) -> str:
        """`constant` (all elements equal), `random`, or `computed`; `literal` for constants that no fill has made."""
        memory = _memory(tensor)
        storage = _storage(tensor)
        if len(memory) and bool((memory == memory[0]).all()) and not (len(memory) == 1 and storage in self._random):
            return "constant" if storage in self._filled or storage in self._random else "literal"
        return "random" if storage in self._random else "computed"

    def _on_parameter(self, module: torch.nn.Module, name: str, tensor: torch.Tensor | None) -> None:
        self._register((module, name), "parameter", tensor)

    def _on_buffer(self, module: torch.nn.Module, name: str, tensor: torch.Tensor | None) -> None:
        self._register((module, name), "buffer", tensor)

    def _on_module(self, module: torch.nn.Module, name: str, submodule: torch.nn.Module | None) -> None:
        """What a copied module brings has not been registered one by one."""
        for part in submodule.modules() if submodule is not None else ():
            for own_name, parameter in part._parameters.items():
                self._register((part, own_name), "parameter", parameter)
        for part in submodule.modules() if submodule is not None else ():
            for own_name, buffer in part._buffers.items():
                self._register((part, own_name), "buffer", buffer)

    def _register(self, place: tuple[torch.nn.Module, str], kind: str, tensor: torch.Tensor | None) -> None:
        plain = type(tensor) in (torch.Tensor, torch.nn.Parameter)
        if tensor is None or not plain or id(tensor) in self._numbers:
            return
        if str(real(tensor.detach()).dtype) not in trees.DTYPES:
            return
        number = self._numbers[id(tensor)] = self._places[place] = len(self.registered)
        self.registered.append((kind, tensor))
        if kind == "parameter" and not tensor.requires_grad:
            self._fixed.add(number)
        self._give(number, tensor)

    def _give(self, number: int, tensor: torch.Tensor) -> None:
        values, held = self._given.get(number), real(tensor.detach())
        if values is not None and values.shape == held.shape:
            self._held[_storage(tensor)] = held, values
            held.copy_(values)

    def _hold(self) -> None:
        """Give values to tensors that have got other memory since they were registered, if no other has it, too."""
        for number, (_, tensor) in enumerate(self.registered):
            if _storage(tensor) not in self._held:
                self._give(number, tensor)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        drawn = torch.Tag.nondeterministic_seeded in func.tags
        if drawn and self._hidden is not None:
            shape = _shape_drawn(args)
            key = repr((self._hidden, shape, self._counts[shape]))
            self._counts[shape] += 1
            seed_torch(int.from_bytes(hashlib.sha256(key.encode()).digest()[:6], "big"))
            kwargs = {name: value for name, value in kwargs.items() if name != "generator"}
        result = func(*args, **kwargs)
        self._follow(func, drawn, args, result)
        return result

    def _follow(self, func: Any, drawn: bool, args: Any, result: Any) -> None:
        inputs = {_storage(item) for item in args if isinstance(item, torch.Tensor)}
        name, changes = func._schema.name.removeprefix("aten::"), func._schema.is_mutable
        sources = {_storage(item) for item in args[1:] if isinstance(item, torch.Tensor)} if changes else inputs
        fills = name in _FILLS or (name in _COPIES and sources <= self._filled)
        for item in result if isinstance(result, tuple | list) else (result,):
            if not isinstance(item, torch.Tensor):
                continue
            storage = _storage(item)
            if drawn or self._random & inputs:
                self._random.add(storage)
            elif storage not in inputs:
                self._random.discard(storage)  # the address of a tensor that is gone
            is_view = storage in inputs and not changes and name != "lift_fresh"  # (`torch.tensor`)
            if not is_view:
                (self._filled.add if fills else self._filled.discard)(storage)
        if drawn and isinstance(result, torch.Tensor):
            self.draws.append(_checksum(result))
        if self._held and changes:
            for storage in inputs & self._held.keys():
                tensor, values = self._held[storage]
                tensor.copy_(values)


def _shape_drawn(args: tuple[Any, ...]) -> tuple[int, ...]:
    """The shape of what an operator draws, from its arguments: a tensor's, or a list of sizes."""
    for item in args:
        if isinstance(item, torch.Tensor):
            return tuple(item.shape)
        if isinstance(item, tuple | list):
            return tuple(item)
    return ()


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _memory(tensor: torch.Tensor) -> Any:
    """A tensor's elements as bytes, (elements, bytes of one); NumPy's, because PyTorch's operators may be closed."""
    dense = tensor.detach().cpu().contiguous()
    return dense.view(-1).view(torch.uint8).numpy().reshape(dense.numel(), dense.element_size())


def _checksum(tensor: torch.Tensor) -> int:
    return zlib.crc32(_memory(tensor))
