"""What a task asks of its own precision, while it runs in float64: the limits of its numbers, and their bits."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from kernelrl.executor.contest.operator_mode import OperatorMode, arguments_of

_finfo: Any = torch.finfo


class BitsRead(Exception):
    """A task reads the bits of a number, of which float64 has others."""


@contextlib.contextmanager
def noted_limits(module: str) -> Iterator[list[torch.dtype]]:
    """The precisions whose limits the code of a module asks for meanwhile, in this order."""
    asked: list[torch.dtype] = []

    def noting(*dtype: torch.dtype) -> Any:
        found = _finfo(*dtype)
        if _caller() == module:
            asked.append(getattr(torch, found.dtype))
        return found

    with _in_place_of_finfo(noting):
        yield asked


class OwnPrecision(OperatorMode):  # type: ignore[no-untyped-call]
    """While it is active, a task in float64 is told the limits of its own precision.

    Args:
        module: the task's.
        asked: the precisions whose limits it asks for, see `noted_limits`.
        replaced: those of the operands of its `nan_to_num`, in their order.
        lowest: its lowest precision.
    """

    def __init__(self, module: str, asked: Iterable[torch.dtype], replaced: Iterable[torch.dtype], lowest: torch.dtype):
        super().__init__()
        self._module, self._lowest = module, lowest
        self._asked, self._replaced = iter(asked), iter(replaced)
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Any:
        self._stack.enter_context(_in_place_of_finfo(self._told))
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *exc: Any) -> None:
        super().__exit__(*exc)  # type: ignore[no-untyped-call]
        self._stack.close()

    def _told(self, *dtype: torch.dtype) -> Any:
        return _finfo(next(self._asked, self._lowest)) if _caller() == self._module else _finfo(*dtype)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name
        if name.startswith("aten::nan_to_num"):
            limits = _finfo(next(self._replaced, self._lowest))
            given = arguments_of(func, args, kwargs)
            most, least = given["posinf"], given["neginf"]
            most, least = limits.max if most is None else most, limits.min if least is None else least
            others = {key: value for key, value in kwargs.items() if key == "out"}
            return func(args[0], given["nan"], most, least, **others)
        reads_bits = name == "aten::view" and func._overloadname == "dtype" and self._lowest != torch.float64
        if reads_bits and torch.float64 in (args[0].dtype, args[1]):
            raise BitsRead
        return func(*args, **kwargs)


@contextlib.contextmanager
def _in_place_of_finfo(function: Any) -> Iterator[None]:
    before = torch.finfo
    torch.finfo = function  # type: ignore[misc]
    try:
        yield
    finally:
        torch.finfo = before  # type: ignore[misc]


def _caller() -> str:
    """Name of the module that has called the function that calls this."""
    return str(sys._getframe(2).f_globals.get("__name__"))
