"""Integers that a reference treats unlike the others that an input may hold: found by its own operators.

An operator that works element by element is run once more on all numbers that the input may hold, and so is what it
gives further on. Where a comparison has one answer for few of these, where a limit changes few, or where a table has
another entry for few, these few matter, and random draws hardly meet them. Of an input that is one number (a step, a
counter) those matter for which a comparison, a limit or a rounding has another answer than for the number shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.weak import WeakIdKeyDictionary

from kernelrl.executor.contest.values import tensors_in

_ELEMENTWISE = frozenset(
    "eq ne lt le gt ge add sub rsub mul div floor_divide remainder fmod bitwise_and bitwise_or bitwise_xor bitwise_not "
    "bitwise_left_shift bitwise_right_shift __and__ __or__ __xor__ __lshift__ __rshift__ __lshift __rshift logical_and "
    "logical_or logical_xor logical_not neg abs sign clamp clamp_min clamp_max minimum maximum where pow _to_copy "
    "isin reciprocal floor ceil round trunc sqrt rsqrt exp log cos".split()
)
_STEPS = frozenset("floor ceil round trunc floor_divide".split())
_LIMITS = frozenset("clamp clamp_min clamp_max minimum maximum".split())
_LAID_OUT = frozenset(
    "view reshape _unsafe_view expand permute transpose t squeeze unsqueeze slice select as_strided detach alias "
    "unbind split split_with_sizes clone contiguous repeat".split()
)
_EQUALS = ("eq", "ne")
_TABLES_FIRST = ("embedding", "_embedding_bag", "_embedding_bag_forward_only")
_LOSSES = ("nll_loss_forward", "nll_loss2d_forward")
"""They look up a weight of each class."""
WIDEST = 1 << 17
"""Ranges of up to so many numbers are gone through, and so many where an input is one number. Of others so many are
taken: ends, powers of two, and between."""
RARE = 1 / 64
"""What is true of a smaller share of the numbers is seldom met."""
FEW = 4
"""Numbers that are taken of those for which one operator has another answer."""
SPREADS = 8.0
"""An entry of a table is unlike the others if it is so many times as far from the median as half of the entries are."""
MOST = 1000
"""Operators that are followed."""


@dataclass(frozen=True, eq=False)
class _Trace:
    """What a tensor's elements are for each number that an input may hold."""

    numbers: torch.Tensor
    values: torch.Tensor
    shown: int | None = None
    """The input's only number, which is not negative; None: it holds several."""


class Meanings:
    """Follows integer inputs through the operators of a reference.

    Args:
        inputs: arguments of its call.
        ranges: from which integers are drawn, half-open.
    """

    def __init__(self, inputs: Iterable[Any], ranges: Iterable[Sequence[int]]):
        self._traces: Any = WeakIdKeyDictionary()
        self._num_followed = 0
        self.found: list[int] = []
        """The numbers, those of each operator in turn."""
        self.alone: list[int] = []
        """Those of inputs that are one number."""
        ordered = sorted(ranges, key=lambda limits: limits[1] - limits[0])
        for tensor in tree_leaves(tuple(inputs)):
            if not (isinstance(tensor, torch.Tensor) and _is_integer(tensor) and tensor.numel()):
                continue
            if tensor.numel() == 1 and 0 <= int(tensor) < (most := min(WIDEST, torch.iinfo(tensor.dtype).max)):
                numbers = torch.arange(most, dtype=tensor.dtype)
                self._traces[tensor] = _Trace(numbers, numbers, int(tensor))
            else:
                numbers = _numbers(int(tensor.min()), int(tensor.max()), ordered).to(tensor.dtype)
                self._traces[tensor] = _Trace(numbers, numbers)

    def follow(self, name: str, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        """An operator has run; `name` is without its namespace and the underscore of those that work in place."""
        leaves = tensors_in((args, kwargs))
        traced = next((item for item in leaves if item in self._traces), None)
        if traced is None or self._num_followed >= MOST:
            return
        self._num_followed += 1
        trace: _Trace = self._traces[traced]
        if name in _LAID_OUT:
            values: torch.Tensor | None = trace.values
        elif name in _ELEMENTWISE:
            values = self._repeat(name, func, args, kwargs, trace)
        else:
            values = self._look_up(name, args, trace)
        if values is None:
            return
        for item in tree_leaves(result):
            if isinstance(item, torch.Tensor):
                self._traces[item] = _Trace(trace.numbers, values, trace.shown)

    def _repeat(
        self, name: str, func: Any, args: Sequence[Any], kwargs: dict[str, Any], trace: _Trace
    ) -> torch.Tensor | None:
        """What an operator gives for each number; None: that hangs on more than the number."""
        others: list[torch.Tensor] = []

        def stand_in(item: Any) -> Any:
            if not isinstance(item, torch.Tensor):
                return item
            if item in self._traces and self._traces[item].numbers is trace.numbers:
                return self._traces[item].values.clone()
            if item.numel() == 1:
                return item.reshape(())
            others.append(item)
            return item

        given, named = tree_map(stand_in, (tuple(args), dict(kwargs)))
        if others and name in _EQUALS:
            self._note(trace, torch.isin(trace.values, others[0]))
        if others and name != "isin":
            return None
        try:
            values = func(*given, **named)
        except (RuntimeError, TypeError):
            return None  # it takes tensors of the call's own shape alone
        if not isinstance(values, torch.Tensor) or values.shape != trace.numbers.shape:
            return None
        if values.dtype == torch.bool:
            self._note(trace, values)
        elif name in _LIMITS:
            self._note(trace, values != trace.values if trace.shown is None else (values - trace.values).sign())
        elif trace.shown is not None and name in _STEPS:
            self._note(trace, values != values[trace.shown])
        elif trace.shown is not None and name == "abs":
            self._note(trace, trace.values < 0)
        return values

    def _look_up(self, name: str, args: Sequence[Any], trace: _Trace) -> torch.Tensor | None:
        """Entries of a table for each number, where it is asked by them."""
        table = self._table(name, args)
        if table is None or not len(table) or not _is_integer(trace.values):
            return None
        entries = table.detach()
        if entries.dim() > 1:
            entries = entries.reshape(len(entries), -1).double().square().sum(dim=1).sqrt()
        is_place = (trace.values >= 0) & (trace.values < len(entries))
        values = entries[trace.values.long().clamp(0, len(entries) - 1)]
        self._note(trace, is_place & _unlike(entries)[trace.values.long().clamp(0, len(entries) - 1)])
        return values if table.dim() == 1 else None

    def _table(self, name: str, args: Sequence[Any]) -> torch.Tensor | None:
        """What an operator looks up by its first dimension; None: it does not."""
        if name in _TABLES_FIRST:
            table, places = args[:2]
        elif name in _LOSSES:
            places, table = args[1:3]
        elif name == "index":
            table, (places, *others) = args[:2]
            if any(each is not None for each in others):
                return None
        elif name == "index_select":
            table, dim, places = args[:3]
            table = table.movedim(dim, 0)
        elif name == "take":
            table, places = args[0].reshape(-1), args[-1]
        elif name == "gather":
            table, places = _row(args[0], args[1]), args[2]
            if table is None:
                return None
        else:
            return None
        is_asked = isinstance(table, torch.Tensor) and isinstance(places, torch.Tensor) and places in self._traces
        return table if is_asked and table not in self._traces else None

    def _note(self, trace: _Trace, answers: torch.Tensor) -> None:
        """Of two answers, the numbers with the one that few have, or that the number shown does not have."""
        numbers = trace.numbers
        if trace.shown is not None:
            others = torch.unique(answers[answers != answers[trace.shown]])[:FEW]
            self.alone += chain.from_iterable(_around(numbers[answers == each], trace.shown) for each in others)
            return
        share = float(answers.double().mean())
        few = numbers[answers if share <= 0.5 else ~answers]
        if 0 < len(few) <= RARE * len(numbers):
            chosen = torch.linspace(0, len(few) - 1, min(FEW, len(few))).long()
            self.found += few[chosen].tolist()


def _around(numbers: torch.Tensor, shown: int) -> list[int]:
    """Of ascending numbers the next one on either side of another, one of those that follow, and one twice as far."""
    found = numbers[numbers < shown][-1:].tolist()
    above = numbers[numbers > shown]
    if len(above):
        first = int(above[0])
        gaps = (above.diff() > 1).nonzero().flatten().tolist()
        last = int(above[gaps[0]]) if gaps else int(above[-1])
        found += [first, (first + min(last, 2 * first)) // 2, *above[above >= 2 * first][:1].tolist()]
    return found


def _row(table: torch.Tensor, dim: int) -> torch.Tensor | None:
    """What a table holds along a dimension, if it is the same all along the others."""
    dim %= max(1, table.dim())
    others = [each for each in range(table.dim()) if each != dim]
    if not table.dim() or any(table.shape[each] != 1 and table.stride(each) for each in others) or not table.numel():
        return None
    return table.movedim(dim, 0).reshape(table.shape[dim], -1)[:, 0]


def _numbers(least: int, most: int, ranges: Sequence[Sequence[int]]) -> torch.Tensor:
    """Those that an input may hold which holds some between these: the narrowest range that has both."""
    low, high = next((each for each in ranges if each[0] <= least and most < each[1]), (least, most + 1))
    high = min(high, 2**63 - 1)
    if high - low <= WIDEST:
        return torch.arange(low, high)
    step = (high - low) // (WIDEST // 2)
    powers = [sign * 2**bits + off for bits in range(62) for sign in (1, -1) for off in (-1, 0, 1)]
    near = torch.arange(WIDEST // 8)
    spread = torch.arange(WIDEST // 2) * step + low
    found = torch.cat([spread, near + low, high - 1 - near, near, torch.tensor(powers)])
    return found[(found >= low) & (found < high)].sort().values


def _unlike(entries: torch.Tensor) -> torch.Tensor:
    """Which entries of a table are not finite, zero, one of few values and seldom, or far from all others."""
    values = entries.double()
    finite = values.isfinite()
    middle = values[finite].median() if bool(finite.any()) else values.new_zeros(())
    distance = (values - middle).abs()
    spread = distance[finite].median() if bool(finite.any()) else middle
    found = ~finite | (distance > SPREADS * spread) | ((values == 0) & (middle != 0))
    kinds, which, counts = torch.unique(values, return_inverse=True, return_counts=True)
    seldom = counts[which] <= RARE * len(values) / 2
    return found | seldom if len(kinds) <= 1 / RARE else found


def _is_integer(tensor: torch.Tensor) -> bool:
    return not tensor.is_floating_point() and not tensor.is_complex() and tensor.dtype != torch.bool
