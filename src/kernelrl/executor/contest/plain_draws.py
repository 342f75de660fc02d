"""Which random numbers reach a task's inputs as they were drawn, at most scaled, shifted or laid out in another way, or
as shares that any numbers may become (`softmax`, `sigmoid`).

What a task makes of others (a comparison, a sum, an order, an integer) may rest on the range that they come from.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

_LAID_OUT = frozenset(
    f"aten::{name}"
    for name in (
        "view reshape _unsafe_view expand permute transpose t squeeze unsqueeze slice select as_strided detach alias "
        "unbind split split_with_sizes diagonal clone contiguous cat stack repeat flip roll triu tril "
        "index index_select gather take take_along_dim"
    ).split()
)
_SHARES = ("aten::_softmax", "aten::sigmoid")
_SCALED = frozenset(f"aten::{name}" for name in "mul div add sub rsub neg".split())

Range = tuple[float, float]


@dataclass(frozen=True)
class _Origin:
    """Where a tensor's numbers come from."""

    draws: frozenset[int]
    range: Range


class PlainDraws:
    """Follows drawn tensors through the operators of `get_inputs()`."""

    def __init__(self) -> None:
        self._origins: Any = WeakIdKeyDictionary()
        self._bound: set[int] = set()
        self._supports: dict[int, Range] = {}
        self._left: list[torch.Tensor] = []

    def begin(self, drawn: torch.Tensor, number: int, support: Range) -> None:
        """Follow a tensor that was just drawn from an interval, by the number of its draw."""
        self._origins[drawn] = _Origin(frozenset((number,)), support)
        self._supports[number] = support
        is_anothers = not drawn.untyped_storage().resizable()  # as `torch.from_numpy` gives it
        if is_anothers or any(_share_memory(drawn, each) for each in self._left):
            self._bound.add(number)

    def leave(self, tensor: torch.Tensor, as_bits: bool) -> None:
        """What is made of a tensor's values from now on is not seen; of bits it is."""
        if as_bits:
            return
        self._left.append(tensor)
        for each, origin in list(self._origins.items()):
            if _share_memory(tensor, each):
                self._bound |= origin.draws

    def follow(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """An operator has run."""
        known = [each for each in tree_leaves((args, kwargs)) if _is_tensor(each) and each in self._origins]
        if not known:
            return
        origins = [self._origins[each] for each in known]
        draws = frozenset().union(*(origin.draws for origin in origins))
        found = None if func._schema.is_mutable else self._range(func._schema.name, args, kwargs, origins)
        results = [each for each in tree_leaves(result) if _is_tensor(each)]
        if found is None or not results or not all(each.is_floating_point() for each in results):
            self._bound |= draws
            return
        for each in results:
            self._origins[each] = _Origin(draws, found)

    def _range(self, name: str, args: Any, kwargs: Any, origins: list[_Origin]) -> Range | None:
        """Interval in which the result lies; None: the operator may rely on its operands' values."""
        low, high = min(origin.range[0] for origin in origins), max(origin.range[1] for origin in origins)
        if name in _LAID_OUT or name == "aten::_to_copy":
            return (min(low, 0.0), max(high, 0.0)) if name in ("aten::triu", "aten::tril") else (low, high)
        if name == "aten::neg":
            return -high, -low
        if name in _SHARES:
            return 0.0, 1.0
        if name not in _SCALED or kwargs:
            return None
        tensors = [each for each in args if _is_tensor(each) and each.dim()]
        if len(tensors) > 1 or not all(each in self._origins for each in tensors):
            return None
        first, second = (self._range_of(each) for each in args[:2])
        return _combined(name, first, second)

    def _range_of(self, item: Any) -> Range:
        if _is_tensor(item) and item in self._origins:
            origin: _Origin = self._origins[item]
            return origin.range
        return float(item), float(item)

    def reach(self, inputs: Iterable[torch.Tensor]) -> list[tuple[int, float]]:
        """The draws whose values are inputs and nothing else, and that the task does not keep from zero.

        Returns:
            The number of each, and by what a distance must be multiplied before it is drawn so that it is at most
            itself when it has reached the inputs, which may be scaled.
        """
        found: dict[int, float] = {}
        bound = set(self._bound)
        for tensor in inputs:
            if tensor not in self._origins:
                continue
            origin = self._origins[tensor]
            low, high = origin.range
            if not low <= 0.0 <= high:
                bound |= origin.draws
                continue
            for number in origin.draws:
                start, end = self._supports[number]
                found[number] = min(found.get(number, 1.0), (end - start) / max(high - low, 1e-30))
        return sorted((number, factor) for number, factor in found.items() if number not in bound)


def _combined(name: str, first: Range, second: Range) -> Range | None:
    if name == "aten::add":
        return first[0] + second[0], first[1] + second[1]
    if name in ("aten::sub", "aten::rsub"):
        if name == "aten::rsub":
            first, second = second, first
        return first[0] - second[1], first[1] - second[0]
    if name == "aten::div":
        if second[0] <= 0.0 <= second[1]:
            return None
        second = 1 / second[1], 1 / second[0]
    products = [one * other for one in first for other in second]
    return min(products), max(products)


def _share_memory(first: torch.Tensor, second: torch.Tensor) -> bool:
    return bool(first.untyped_storage()._cdata == second.untyped_storage()._cdata)


def _is_tensor(item: Any) -> bool:
    return isinstance(item, torch.Tensor)
