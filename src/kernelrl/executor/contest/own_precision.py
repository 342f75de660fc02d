"""What a task asks of its own precision, while it runs in float64: the limits of its numbers, and their bits."""

from __future__ import annotations

import contextlib
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

from kernelrl.executor.contest.guards import MODULE_NAME
from kernelrl.executor.contest.operator_mode import OperatorMode, arguments_of

_finfo: Any = torch.finfo

Place = tuple[str, int] | None
"""File and line of a call; None: it is one of kernelrl's own."""


class BitsRead(Exception):
    """A task reads the bits of a number, of which float64 has others."""


@contextlib.contextmanager
def noted_limits() -> Iterator[Mapping[Place, list[torch.dtype]]]:
    """The precisions whose limits are asked for meanwhile (`torch.finfo`), by the place of the call, in their order."""
    asked: dict[Place, list[torch.dtype]] = defaultdict(list)

    def noting(*args: Any, **kwargs: Any) -> Any:
        found = _finfo(*args, **kwargs)
        asked[_place()].append(getattr(torch, found.dtype))
        return found

    with _in_place_of_finfo(noting):
        yield asked


class OwnPrecision(OperatorMode):  # type: ignore[no-untyped-call]
    """While it is active, a task in float64 is told the limits of its own precision.

    Where it replaces what is not finite (`nan_to_num`), that is what its own precision cannot hold.

    Args:
        asked: the precisions whose limits it asks for in its own precision, see `noted_limits`.
        replaced: those of the operands of its `nan_to_num`, in their order.
        lowest: its lowest precision, for questions that it did not ask then.
        only: the only one that it has, which it is told of its tensors; None: it has several.
    """

    def __init__(
        self,
        asked: Mapping[Place, list[torch.dtype]],
        replaced: Iterable[torch.dtype],
        lowest: torch.dtype,
        only: torch.dtype | None,
    ):
        super().__init__()
        self._only = only
        self._lowest = lowest
        self._asked = {place: list(reversed(dtypes)) for place, dtypes in asked.items()}
        self._replaced = iter(replaced)
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Any:
        self._stack.enter_context(_in_place_of_finfo(self._told))
        if self._only is not None:
            self._stack.enter_context(_TellsType(self._only))
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *exc: Any) -> None:
        super().__exit__(*exc)  # type: ignore[no-untyped-call]
        self._stack.close()

    def _told(self, *args: Any, **kwargs: Any) -> Any:
        found, place = _finfo(*args, **kwargs), _place()
        if found.dtype != "float64" or place is None:
            return found
        dtypes = self._asked.get(place, [self._lowest])
        return _finfo(dtypes.pop() if len(dtypes) > 1 else dtypes[0])

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name
        if name.startswith("aten::nan_to_num"):
            limits = _finfo(next(self._replaced, self._lowest))
            given = arguments_of(func, args, kwargs)
            most, least = given["posinf"], given["neginf"]
            most, least = limits.max if most is None else most, limits.min if least is None else least
            with _disable_current_modes():
                held = _as_held(args[0], limits.max)
                if func._schema.is_mutable:
                    held = args[0].copy_(held)
            return func(
                held, given["nan"], most, least, **{key: value for key, value in kwargs.items() if key == "out"}
            )
        if name.startswith("aten::nextafter") and self._lowest != torch.float64:
            with _disable_current_modes():
                return func(*(each.to(self._lowest) for each in args)).double()
        reads_bits = name == "aten::view" and func._overloadname == "dtype" and self._lowest != torch.float64
        if reads_bits and torch.float64 in (args[0].dtype, args[1]):
            raise BitsRead
        return func(*args, **kwargs)


class _TellsType(TorchFunctionMode):
    """While it is active, a task that asks for the type of a float64 tensor is told another one.

    Args:
        dtype: that one.
    """

    def __init__(self, dtype: torch.dtype):
        super().__init__()
        self._dtype = dtype

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func not in _OF_TYPE or args[0].dtype != torch.float64 or not _is_of_task(sys._getframe(1)):
            return result
        return self._dtype if result is torch.float64 else self._dtype.itemsize


_OF_TYPE = (
    torch.Tensor.dtype.__get__,  # type: ignore[attr-defined]
    torch.Tensor.itemsize.__get__,  # type: ignore[attr-defined]
    torch.Tensor.element_size,
)
"""What tells the type of a tensor, or the size of an element."""


def _is_of_task(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__") == MODULE_NAME


def _as_held(values: torch.Tensor, largest: float) -> torch.Tensor:
    """Values as a precision of that largest number holds them: what is beyond is infinity."""
    if not values.is_floating_point():
        return values
    return torch.where(values.abs() > largest, values.sign() * torch.inf, values)


@contextlib.contextmanager
def _in_place_of_finfo(function: Any) -> Iterator[None]:
    before = torch.finfo
    torch.finfo = function  # type: ignore[misc]
    try:
        yield
    finally:
        torch.finfo = before  # type: ignore[misc]


def _place() -> Place:
    """Where the function was called that calls this."""
    frame = sys._getframe(2)
    if str(frame.f_globals.get("__name__")).startswith("kernelrl."):
        return None
    return frame.f_code.co_filename, frame.f_lineno
