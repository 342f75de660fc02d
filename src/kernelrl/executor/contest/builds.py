"""The inline C++ builds of a candidate go to the builder, whichever loader it uses."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from kernelrl.executor import trees
from kernelrl.executor.contest.guards import Native
from kernelrl.executor.contest.values import tensors_in

ALL = "all"
"""In the place of a unit to build: all have been built, and are to be offered."""
MANY = 1000
"""More numbers than a call may hand over, see `judging.trials`."""
NUMBER_BYTES = 4
"""Of a text or a number that count as one number."""
MOST_DIMENSIONS, CHANGES, MOST_LEAVES = 8, 16, 16
"""A tensor with more dimensions hands over a number in each; so does a function that changes the form of what it
returns so often (shape, strides, type, what is None), and what holds more than so many things where that changes."""


_PLAIN: frozenset[type] = frozenset(
    {torch.Tensor, torch.nn.Parameter, bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device}
    | {torch.memory_format, torch.layout}
)


def _check_given(argument: Any) -> None:
    """What a native function can call would be given numbers, and compute with them."""
    if type(argument) in (list, tuple, torch.Size):
        for each in argument:
            _check_given(each)
    elif type(argument) is dict:
        _check_given([*argument, *argument.values()])
    elif type(argument) not in _PLAIN and not _is_of_loader(argument):
        raise TypeError(f"a native function takes tensors, numbers and texts, and no {type(argument).__name__}")


def _is_of_loader(argument: Any) -> bool:
    """Whether it is a tensor or the like that a native function has returned."""
    return type(argument).__module__.startswith("tvm_ffi") and not callable(argument)


class HandedOver:
    """Counts the numbers that a candidate's modules hand to its Python, which could compute with them."""

    def __init__(self) -> None:
        self.count = 0
        self.is_counting = False
        """Numbers in shapes of what functions are given count as well, which takes time."""
        self._forms: dict[int, Any] = {}  # of what each function has returned the last time
        self._num_changed = 0

    def counting(self, function: Any) -> Any:
        """The function of a module; what is no function stays as it is."""
        if not callable(function):
            return function

        def call(*args: Any, **kwargs: Any) -> Any:
            for each in (*args, *kwargs.values()):
                if type(each) not in _PLAIN:
                    _check_given(each)
            given = [(tensor, _layout(tensor)) for tensor in tensors_in((args, kwargs))] if self.is_counting else []
            try:
                result = function(*args, **kwargs)
            except Exception:  # whose text may hold any
                self.count += MANY
                raise
            if any(_layout(tensor) != layout for tensor, layout in given):
                self.count += MANY
            leaves: list[Any] = []
            found, form = self._received(result, args, leaves)
            if self._forms.get(id(function), self) != form:
                self._forms[id(function)] = form
                self._num_changed += 1
                self.count += int(self._num_changed % CHANGES == 0) + max(0, len(leaves) - MOST_LEAVES)
            return found

        return call

    def _received(self, result: Any, given: tuple[Any, ...], leaves: list[Any]) -> tuple[Any, Any]:
        """What Python gets of a result, counted, and its form, which tells something where it changes.

        Lists and dictionaries are Python's own, of which what they hold has been looked at, and functions count, too.

        Args:
            result: of a native function.
            given: what the function was given.
            leaves: is added to.
        """
        kind = type(result)
        name = kind.__name__ if kind.__module__.startswith("tvm_ffi") else ""
        if kind in (list, tuple) or name in ("Array", "List", "Shape"):
            each = [self._received(part, given, leaves) for part in result]
            found = [part for part, _ in each]
            return tuple(found) if kind is tuple else found, (kind, [form for _, form in each])
        if kind is dict or name in ("Map", "Dict"):
            pairs = [[self._received(part, given, leaves) for part in pair] for pair in result.items()]
            forms = [[form for _, form in pair] for pair in pairs]
            return {key: value for (key, _), (value, _) in pairs}, (kind, forms)
        leaves.append(kind)
        if hasattr(result, "__dlpack__"):
            self.count += _numbers_beside(result)
            which = [number for number, other in enumerate(given) if other is result]
            return result, (str(result.dtype), *_layout(result), which)
        if callable(result):
            return self.counting(result), kind
        if kind in (str, bytes):
            self.count += 1 + len(result.encode() if kind is str else result) // NUMBER_BYTES
        elif kind is int:
            self.count += 1 + result.bit_length() // (8 * NUMBER_BYTES + 1)
        elif kind in (bool, float, complex):
            self.count += {bool: 1, float: 2, complex: 4}[kind]
        elif result is not None:
            raise TypeError(f"a native function returns tensors, numbers, texts, lists of them, and no {kind.__name__}")
        return result, kind


def _layout(tensor: Any) -> tuple[tuple[int, ...], ...]:
    """Shape, strides, and where it begins in its storage, which only PyTorch's know."""
    if isinstance(tensor, torch.Tensor):
        return tuple(tensor.shape), tuple(tensor.stride()), (int(tensor.storage_offset()),)
    return tuple(tensor.shape), tuple(tensor.strides)


def _numbers_beside(tensor: Any) -> int:
    """The numbers that a tensor brings beside its elements: its shape and strides can be any."""
    shape, strides, *_ = _layout(tensor)
    if 0 in shape or len(shape) > MOST_DIMENSIONS:
        return 2 * len(shape)
    return 0 if trees.is_dense(shape, strides) else len(shape) - 1


class Modules:
    """The native modules of one candidate: all are built before any is loaded, so that no text that is built was made
    by native code, which can read the libraries' code and could have it compiled into its own.

    Args:
        build: has the builder compile a unit.
        offered: after the last build, gives the paths of all that were built, in their order.
    """

    def __init__(self, build: Callable[[dict[str, Any]], None], offered: Callable[[], list[Path]]):
        self.handed_over = HandedOver()
        self._build = build
        self._offered = offered
        self._built: list[tuple[NativeModule, Callable[[str], Any]]] = []
        self._are_loaded = False

    def add(self, unit: dict[str, Any], load: Callable[[str], Any]) -> NativeModule:
        """A module that is built now, and loaded when one is used.

        Args:
            unit: see `Builder.build`.
            load: makes the module of its path.
        """
        if self._are_loaded:
            raise RuntimeError("all native modules are built before any of them is used: move this load_inline up")
        self._build(unit)
        module = NativeModule(self, unit["functions"])
        self._built.append((module, load))
        return module

    def load(self) -> None:
        """Load all that were built."""
        if self._are_loaded or not self._built:
            return
        self._are_loaded = True
        for (module, load), path in zip(self._built, self._offered(), strict=True):
            vars(module)["_loaded"] = load(str(path))


class NativeModule(Native):
    """A native module, of which the functions' results are counted. It has no public names but theirs.

    Args:
        modules: those of the candidate.
        functions: names of what it has, as far as the candidate has said.
    """

    def __init__(self, modules: Modules, functions: list[str]):
        self.__dict__.update(_modules=modules, _functions=functions, _loaded=None)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name}: a native module has its functions and nothing else")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_loaded" not in self.__dict__:  # which a copy lacks at first
            raise AttributeError(name)
        if self._loaded is None and name in self._functions:
            return self._call(name)
        self._modules.load()
        function = self.__dict__[name] = self._modules.handed_over.counting(getattr(self._loaded, name))
        return function

    def _call(self, name: str) -> Callable[..., Any]:
        """A function of which nothing can be taken, as it could of a method or of a `partial`."""

        def call(*args: Any, **kwargs: Any) -> Any:
            self._modules.load()
            return getattr(self, name)(*args, **kwargs)

        return call

    def __getitem__(self, name: str) -> Any:
        if name.startswith("_"):
            raise KeyError(name)
        return getattr(self, name)


def route_builds(build: Callable[[dict[str, Any]], None], offered: Callable[[], list[Path]]) -> Modules:
    """Send every inline C++ build of the candidate to the builder, whichever loader it uses. See `Modules`."""
    import torch.utils.cpp_extension
    import tvm_ffi
    import tvm_ffi.cpp

    modules = Modules(build, offered)
    known: dict[str, NativeModule] = {}

    def as_list(value: Any) -> list[str]:
        return [value] if isinstance(value, str) else [str(item) for item in value or ()]

    def module(
        loader: str, load: Callable[[str], Any], name: str, cpp: Any, cuda: Any, functions: Any, *flags: Any
    ) -> NativeModule:
        """The module of these texts; a constructor that runs again gets the one that it got before."""
        cflags, cuda_cflags, ldflags = map(as_list, flags)
        unit = {
            "loader": loader,
            "name": name,
            "cpp": as_list(cpp),
            "cuda": [text for text in as_list(cuda) if text.strip()],
            "functions": list(functions) if isinstance(functions, dict) else as_list(functions),
            "cflags": cflags,
            "cuda_cflags": cuda_cflags,
            "ldflags": ldflags,
        }
        if (key := repr(unit)) not in known:
            known[key] = modules.add(unit, load)
        return known[key]

    def tvm_load_inline(
        name: str,
        *,
        cpp_sources: Any = None,
        cuda_sources: Any = None,
        functions: Any = None,
        extra_cflags: Any = None,
        extra_cuda_cflags: Any = None,
        extra_ldflags: Any = None,
        **ignored: Any,
    ) -> NativeModule:
        flags = extra_cflags, extra_cuda_cflags, extra_ldflags
        return module("tvm_ffi", tvm_ffi.load_module, name, cpp_sources, cuda_sources, functions, *flags)

    def torch_load_inline(
        name: str,
        cpp_sources: Any,
        cuda_sources: Any = None,
        functions: Any = None,
        extra_cflags: Any = None,
        extra_cuda_cflags: Any = None,
        extra_ldflags: Any = None,
        **ignored: Any,
    ) -> NativeModule:
        flags = extra_cflags, extra_cuda_cflags, extra_ldflags
        return module("torch", partial(_load_extension, name), name, cpp_sources, cuda_sources, functions, *flags)

    loaders: list[Callable[..., Any]] = [tvm_load_inline, torch_load_inline]
    tvm_ffi.cpp.load_inline, torch.utils.cpp_extension.load_inline = loaders
    return modules


def _load_extension(name: str, path: str) -> ModuleType:
    """An extension module of Python's."""
    spec = importlib.util.spec_from_file_location(name, path, loader=ExtensionFileLoader(name, path))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
