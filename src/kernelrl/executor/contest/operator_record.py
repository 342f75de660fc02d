"""The record of PyTorch's operators that run in a call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from kernelrl.executor.contest.operator_mode import OperatorMode
from kernelrl.executor.contest.values import tensors_in
from kernelrl.executor.processes.note import Note, describe_operator

THROUGH = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16)
"""Types through which conversions may do what an operator does."""
SOME = 4096
"""Elements that are looked at first."""


class OperatorRecord(OperatorMode):  # type: ignore[no-untyped-call]
    """Counts the operators that reach PyTorch's dispatcher.

    Args:
        note: takes each operator before it runs, for a process that dies of it.
        compared: find those that do more than to return their only tensor as it was (as `relu` of positive numbers
            does) or converted (as `trunc` and, of positive numbers, `floor` are to integers and back).
    """

    def __init__(self, note: Note, compared: bool = False) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.changing: set[str] = set()
        self.note = note
        self.compared = compared

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.note.begin(describe_operator(func, args, kwargs or {}))
        before = _only_tensor(func, args, kwargs) if self.compared else None
        result = func(*args, **(kwargs or {}))
        name = func._schema.name
        self.counts[name] += 1
        if self.compared and not _converts(before, result):
            self.changing.add(name)
        return result


def _only_tensor(func: Any, args: Any, kwargs: Any) -> torch.Tensor | None:
    """The tensor that an operator gets, as it is before; None: there are none or several."""
    tensors = tensors_in((args, kwargs))
    if len(tensors) != 1:
        return None
    return tensors[0].clone() if func._schema.is_mutable else tensors[0]


def _converts(before: torch.Tensor | None, result: Any) -> bool:
    """Whether a result is its tensor as it was, or what conversions through one other type, or a view, make of it."""
    if before is None or not isinstance(result, torch.Tensor):
        return False
    if (
        before.is_complex()
        or before.layout != torch.strided
        or (before.shape, before.device) != (result.shape, result.device)
    ):
        return False
    whole = before.flatten(), result.flatten()
    few = whole[0][:SOME], whole[1][:SOME]
    return any(_gives(convert, *few) and _gives(convert, *whole) for convert in _conversions(before.dtype))


def _gives(convert: Callable[[torch.Tensor], torch.Tensor], values: torch.Tensor, result: torch.Tensor) -> bool:
    return convert(values).to(result.dtype).equal(result)


def _conversions(dtype: torch.dtype) -> Iterator[Callable[[torch.Tensor], torch.Tensor]]:
    """What conversions and views may make of a tensor of one dimension and that type, in its length."""
    yield lambda values: values
    for kind in THROUGH:
        yield partial(torch.Tensor.to, dtype=kind)
    for kind in THROUGH:
        parts = dtype.itemsize // kind.itemsize
        if torch.bool not in (kind, dtype):
            yield from (partial(_part, kind=kind, parts=parts, number=number) for number in range(parts))


def _part(values: torch.Tensor, kind: torch.dtype, parts: int, number: int) -> torch.Tensor:
    return values.contiguous().view(kind).view(-1, parts)[:, number]
