"""What operators choose by the order of values, where others may be as good."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import torch

from kernelrl.executor.contest.any_order import in_order
from kernelrl.executor.contest.distances import TIMES
from kernelrl.executor.contest.operator_mode import OperatorMode, arguments_of

_FIRST = frozenset("max min argmax argmin".split())
"""Operators that choose by the order of values, and of equal values the first (as PyTorch documents)."""
_ANY = frozenset("sort argsort topk kthvalue median nanmedian mode".split())
"""Those that may choose any of equal values."""
_RUNNING = frozenset("cummax cummin".split())
"""Those that choose for each value among those up to it."""


@dataclass
class Choice:
    """Indices that one operator chose, and the values that it chose them from."""

    values: torch.Tensor
    """In float64 (…, number of values): the dimension along which was chosen is the last."""
    indices: torch.Tensor
    """Likewise (…, number of chosen ones)."""
    dim: int
    """That dimension, in the form of `indices` that the operator gives."""
    first: bool
    """Whether the first of equal values must be chosen; of a stable sort, whether they stay in their order."""
    running: bool
    """Whether each index is chosen among the values up to its own place."""
    unordered: bool
    """Whether the chosen ones may come in any order."""
    floating: bool
    """Whether they were floating-point numbers before."""
    move: torch.Tensor
    """How far rounding moves each of the values. Below the smallest normal number it may be zero."""


class Choices(OperatorMode):  # type: ignore[no-untyped-call]
    """While it is active, notes what operators choose by the order of values."""

    def __init__(self) -> None:
        super().__init__()
        self._noted: list[tuple[torch.Tensor, torch.Tensor, int | None, bool, bool, bool]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = func._schema.name.removeprefix("aten::")
        chosen = result[-1] if isinstance(result, tuple) else result
        if name in _FIRST | _ANY | _RUNNING and isinstance(chosen, torch.Tensor) and chosen.dtype == torch.int64:
            given = arguments_of(func, args, kwargs)
            if "dim" in given:
                first = name in _FIRST or bool(given.get("stable"))
                unordered = given.get("sorted") is False
                noted = args[0].clone(), chosen.clone(), given["dim"], first, name in _RUNNING, unordered
                self._noted.append(noted)
        return result

    def found(self, tiny: float) -> list[Choice]:
        """The choices so far. Call it when the mode is no longer active.

        Args:
            tiny: smallest normal number.
        """
        return [_choice(*each, tiny) for each in self._noted]


def _choice(
    values: torch.Tensor,
    chosen: torch.Tensor,
    dim: int | None,
    first: bool,
    running: bool,
    unordered: bool,
    tiny: float,
) -> Choice:
    if dim is None or values.dim() == 0:
        values, chosen, dim = values.reshape(-1), chosen.reshape(-1), 0
    elif chosen.dim() < values.dim():
        chosen = chosen.unsqueeze(dim)
    floating = values.is_floating_point()
    values = values.double().movedim(dim, -1).contiguous()
    move = tiny * ((values != 0) & (values.abs() < tiny)).double()
    return Choice(values, chosen.movedim(dim, -1), dim % chosen.dim(), first, running, unordered, floating, move)


class OfEquals(OperatorMode):  # type: ignore[no-untyped-call]
    """While it is active, operators that sort choose the first of equal values, or all that may choose any the last.

    Args:
        last: the last.
    """

    def __init__(self, last: bool):
        super().__init__()
        self._last = last

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = arguments_of(func, args, kwargs)
        name = func._schema.name.removeprefix("aten::")
        if name in _RUNNING and not self._last and args[0].dim():
            values, _ = func(*args, **kwargs)
            return values, _first_running(values, given["dim"])
        if name not in _ANY or "dim" not in given or given.get("stable") or not args[0].dim():
            return func(*args, **kwargs)
        dim = given["dim"]
        values = args[0].flip(dim) if self._last else args[0]
        if name in ("sort", "topk"):
            falling = given["largest"] if name == "topk" else given["descending"]
            result: Any = tuple(torch.sort(values, stable=True, dim=dim, descending=falling))
            if name == "topk":
                result = tuple(each.narrow(dim, 0, given["k"]) for each in result)
        else:
            result = func(values, *args[1:], **kwargs)
        if not self._last:
            return result
        if not isinstance(result, tuple):
            return values.shape[dim] - 1 - result
        return *result[:-1], values.shape[dim] - 1 - result[-1]


def _first_running(extremes: torch.Tensor, dim: int) -> torch.Tensor:
    """The first index at which each running extreme was met, where `cummax` gives the last."""
    along = extremes.movedim(dim, -1)
    is_new = torch.ones_like(along, dtype=torch.bool)
    is_new[..., 1:] = along[..., 1:] != along[..., :-1]
    return torch.where(is_new, torch.arange(along.shape[-1]), 0).cummax(-1).values.movedim(-1, dim)


def find_chosen(outputs: list[torch.Tensor], noted: list[Choice]) -> dict[int, Choice]:
    """Which of the outputs consist of chosen indices, or of the first ones along the dimension of the choice."""
    found: dict[int, Choice] = {}
    for number, output in enumerate(outputs):
        if output.is_floating_point() or output.dtype == torch.bool or not output.numel():
            continue
        for choice in noted:
            kept = choice.indices
            if output.dim() == kept.dim():
                kept = kept[..., : output.shape[choice.dim]]
            named = kept.movedim(-1, choice.dim)
            if output.numel() == named.numel() and torch.equal(output.flatten().long(), named.flatten()):
                unordered = choice.unordered and output.shape == named.shape
                found[number] = replace(choice, indices=kept, unordered=unordered)
    shapes = Counter(outputs[number].shape for number, choice in found.items() if choice.unordered)
    for number, choice in found.items():  # of two of one shape it is not known which of the others belong to which
        choice.unordered &= shapes[outputs[number].shape] == 1
    return found


def put_in_order(outputs: list[torch.Tensor], chosen: dict[int, Choice]) -> list[torch.Tensor]:
    """Outputs, those whose order is open (see `find_chosen`) in one that depends on their values alone."""
    for number, choice in chosen.items():
        if choice.unordered:
            outputs = in_order(choice.values, outputs[number], choice.dim, outputs)
    return outputs


def is_undecided(choice: Choice) -> bool:
    """Whether any two of the values are so near each other that rounding may change their order."""
    order = choice.values.argsort(dim=-1)
    gaps = choice.values.gather(-1, order).diff(dim=-1)
    move = choice.move.expand_as(choice.values).gather(-1, order)
    return bool(((gaps <= TIMES * (move[..., 1:] + move[..., :-1])) & (move[..., 1:] > 0)).any())


def vanishes(choice: Choice, tiny: float) -> bool:
    """Whether values that are no denormal numbers, and no integers, are equal: what made them different may be lost."""
    if not choice.floating:
        return False
    ordered = choice.values.sort(dim=-1).values
    return bool(((ordered.diff(dim=-1) == 0) & (ordered[..., 1:].abs() >= tiny)).any())


def is_of_equals(choice: Choice) -> bool:
    """Whether another index may be as good."""
    return not choice.first and _has_equals(choice.values)


def _has_equals(values: torch.Tensor) -> bool:
    ordered = values.sort(dim=-1).values
    one, next_one = ordered[..., :-1], ordered[..., 1:]
    return bool(((one == next_one) | (one.isnan() & next_one.isnan())).any())
