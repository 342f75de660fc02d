"""Hidden values at the place where a task draws its inputs.

`get_inputs()` runs while the random operators of PyTorch give values of another distribution. What the task makes of
its draws keeps its structure: triangular, symmetric, positive definite, one-hot, ±1, sorted or masked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from kernelrl.executor.api import Distribution
from kernelrl.executor.contest import distributions, rare
from kernelrl.executor.contest.distributions import redraw
from kernelrl.executor.contest.operator_mode import OperatorMode
from kernelrl.executor.contest.plain_draws import PlainDraws, Range
from kernelrl.executor.contest.values import real

_UNIT = ("rand", "rand_like")
_NORMAL = ("randn", "randn_like", "normal", "normal_", "cauchy_")
_UNBOUNDED = (*_NORMAL, "exponential_", "log_normal_", "_standard_gamma")
_UNIFORM = ("uniform", "uniform_")
_INTEGERS = ("randint", "randint_like", "random_", "multinomial")
_COINS = ("bernoulli", "bernoulli_")
_COUNTS = {"poisson": 0, "binomial": 0, "geometric": 1, "geometric_": 1}
"""Operators that draw whole numbers, with the smallest; a largest has only `binomial`, which is told it."""
ZERO_ONE_IN = 3
"""Share of the runs with zeros in which one of several draws is zero throughout."""


@dataclass(frozen=True)
class Further:
    """What draws of a hidden distribution hold beside it, if the reference bears that."""

    only: Sequence[int] | None = None
    """The draws of which this holds; None: all of them."""
    elsewhere: bool = False
    """The other draws have the distribution, and nothing beside it; otherwise they are the task's own."""
    beyond: Sequence[tuple[int, float]] = ()
    """The draws that leave the interval of their operator, or may, see `PlainDraws.reach`."""
    floats: Sequence[float] = ()
    integers: Sequence[int] = ()
    """Numbers that are mixed in where the operator could have drawn them."""
    mixed: Literal["often", "seldom", "alone"] | None = None
    """The ends of the range of integers are such numbers, too, and so is 0. They come often, and at the ends of rows,
    `seldom`: in few places, or `alone`: in rows that hold no other. None: they are none, and the others come often."""
    far: bool = False
    """Where no interval is drawn from, values are far from zero, with one sign along most dimensions."""
    not_finite: bool = False
    """What is rare may be NaN or infinite."""
    infinities: Sequence[float] = ()
    """Those that the task compares with, where it says no more of what is not finite: no other one comes."""
    counts: bool = False
    """Some counts are larger than any that were drawn."""
    python_ends: bool = False
    """Some draws by Python's `random` are the smallest or the largest that they can be."""
    rows: bool = False
    """Some rows are all zero, of masks all false or all true."""
    num_drawn: int = 0
    """Then of so many draws, where they are several, one may be zero throughout."""
    most: float = math.inf
    """The largest magnitude of what the task converts to a type that has no larger numbers."""
    between: float = 0.0
    """At the boundary: where floating-point values lie between those of two draws, 0 to 1."""


class DrawCounter(OperatorMode):  # type: ignore[no-untyped-call]
    """While it is active, counts draws."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **(kwargs or {}))


class Drawing(OperatorMode):  # type: ignore[no-untyped-call]
    """While it is active, draws have values of the named distribution, within the range of the operator that draws.

    Permutations, Bernoulli draws and samples without replacement stay as they are: their values are a structure. A
    seed that the task sets itself, or a generator of its own, is without effect.

    Args:
        distribution: its name; `task`: the task's own.
        seed: of the values.
        further: what they hold beside it.
        most: draws, of which no more are made: one that is drawn until it lies somewhere may never do so.
    """

    def __init__(
        self,
        distribution: Distribution | Literal["task"],
        seed: int,
        further: Further | None = None,
        most: float = math.inf,
    ):
        super().__init__()
        self._most = most
        self._distribution = distribution
        self._given = further or Further()
        self._further = self._given  # of the current draw
        self._state = torch.Generator().manual_seed(seed).get_state()
        self._generator = torch.Generator().manual_seed(seed)
        self._other_state = torch.Generator().manual_seed(seed ^ 1).get_state()
        self.num_drawn = 0
        """Number of draws seen."""
        self._num_with_nan = self._num_far = self._num_negative = 0
        self._turn = 0  # which of the draws that leave their interval to be negative are positive, see `_alternately`
        self._zero: int | None = None  # number of the draw that is zero throughout, if it is one
        self._signs: dict[int, torch.Tensor] | None = None  # of values far from zero, if they are opposite
        self.num_redrawn = 0
        """Number of draws that have other values than the task's own."""
        self.plain = PlainDraws()
        """Of draws from an interval, in a run on the task's own distribution."""
        self.ranges: set[tuple[int, int]] = set()
        """From which integers were drawn."""
        self.draws_counts = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in func.tags:
            result = func(*args, **kwargs)
            if self._distribution == "task":
                self.plain.follow(func, args, kwargs, result)
            return result
        torch.set_rng_state(self._state)
        kwargs = {name: None if name == "generator" else value for name, value in kwargs.items()}
        drawn = func(*args, **kwargs)
        self._state = torch.get_rng_state()
        if not isinstance(drawn, torch.Tensor):
            return drawn
        self.num_drawn += 1
        if self.num_drawn > self._most:
            raise RuntimeError(f"get_inputs() draws more than {self._most} times, until it likes what it gets")
        name = func._schema.name.removeprefix("aten::")
        support = _support(name, func, args, kwargs)
        if support is not None and name in _INTEGERS:
            self.ranges.add((int(support[0]), int(support[1])))
        self.draws_counts |= name in _COUNTS
        if self._distribution == "task":
            if support is not None and drawn.is_floating_point():
                self.plain.begin(drawn, self.num_drawn, support)
            return drawn
        values = real(drawn)
        if self._distribution == distributions.BOUNDARY:
            self._put_between(values, name, lambda: real(func(*args, **kwargs)))
            return drawn
        only = self._given.only
        holds = only is None or self.num_drawn in only
        self._further = self._given if holds else Further()
        new = self._redraw(self._distribution, name, values, support) if holds or self._given.elsewhere else None
        if name == "binomial" and new is not None:
            new = torch.minimum(new.to(drawn.dtype), args[0])
        if new is not None:
            self.num_redrawn += name not in _COINS or self._distribution in distributions.PATTERNED
            values.copy_(distributions.within(new, self._given.most) if self._given.most < math.inf else new)
        return drawn

    def _put_between(self, drawn: torch.Tensor, name: str, draw_again: Callable[[], torch.Tensor]) -> None:
        """Between the drawn values and others."""
        if name not in _UNIT + _UNBOUNDED + _UNIFORM or not drawn.is_floating_point():
            return
        first = drawn.to(torch.float64, copy=True)
        torch.set_rng_state(self._other_state)
        other = draw_again().double()
        self._other_state = torch.get_rng_state()
        self.num_redrawn += 1
        drawn.copy_(torch.lerp(first, other, self._given.between))

    def _redraw(
        self, distribution: Distribution, name: str, drawn: torch.Tensor, support: Range | None
    ) -> torch.Tensor | None:
        """Other values, with what they hold beside the distribution; None: the drawn ones stay."""
        if not drawn.numel():
            return None
        if name in _COINS and distribution in distributions.PATTERNED and distribution != "spike":
            return redraw(distribution, drawn.long(), self._generator)
        if name == "randperm" and distribution == "ordered":
            return redraw(distribution, drawn, self._generator)
        if name in _COINS:
            return distributions.with_even_rows(drawn, self._generator, 0.0, 1.0) if self._further.rows else None
        if name in _COUNTS:
            if self._further.counts:
                return distributions.counts(drawn, self._generator, _COUNTS[name], mixed=distribution != "large")
            return redraw(distribution, drawn.long(), self._generator)
        if name == "_sample_dirichlet":
            return distributions.shares(distribution, drawn, self._generator)
        if name == "multinomial" and support is None:
            return None
        if name in _INTEGERS:
            return self._redraw_integers(distribution, drawn, support)
        if name in _UNIT + _UNBOUNDED + _UNIFORM:
            return self._redraw_floats(distribution, drawn, support, name in _NORMAL)
        return None

    def _redraw_integers(
        self, distribution: Distribution, drawn: torch.Tensor, support: Range | None
    ) -> torch.Tensor | None:
        further, generator = self._further, self._generator
        new = redraw(distribution, drawn.long(), generator)
        if support is None:
            return new
        if further.rows and support[1] - support[0] == 2:
            return distributions.with_even_rows(drawn, generator, support[0], support[0] + 1)
        low, high = (int(limit) for limit in support)
        numbers = [each for each in further.integers if low <= each < high]
        if further.mixed == "alone":
            ends = [low, high - 1, *[0] * (low < 0 < high)]
            return rare.rows_of(drawn if new is None else new, numbers, ends, generator)
        if further.mixed and high - low > distributions.FEW_INTEGERS:
            return distributions.with_special(
                drawn if new is None else new,
                [low, high - 1, *numbers, *[0] * (low < 0 < high)],
                generator,
                drawn,
                further.mixed,
            )
        if not numbers or further.mixed == "seldom":
            return new
        return distributions.with_numbers(drawn if new is None else new, numbers, generator, rest=drawn)

    def _redraw_floats(
        self, distribution: Distribution, drawn: torch.Tensor, support: Range | None, of_any_sign: bool
    ) -> torch.Tensor | None:
        further, generator = self._further, self._generator
        factor = dict(further.beyond).get(self.num_drawn)
        if distribution in distributions.RARE:
            new = self._redraw_seldom(distribution, drawn, support, factor, of_any_sign)
            return rare.not_finite(new, drawn, generator) if further.not_finite and new is not None else new
        if factor is not None and support is not None and distribution in distributions.LEAVING:
            new = distributions.leave(distribution, drawn, generator, support, factor)
            return self._alternately(new) if distribution == "negative" else new
        negative = support is None and (of_any_sign or bool((drawn < 0).any()))
        if further.far and negative and distribution != "uniform":
            return distributions.farther(distribution, drawn, generator)
        if further.far and negative:
            if self._signs is None and self._num_far == 0 and (rare.coin(generator) or rare.coin(generator)):
                self._signs = {}
            self._num_far += 1
            return distributions.far(drawn, generator, self._signs)
        if distribution == "nan":
            self._num_with_nan += 1
            return distributions.with_nan(drawn, generator, self._num_with_nan)
        if distribution == "infinite" and further.infinities:
            return distributions.with_infinity(drawn, generator, further.infinities)
        if distribution == "ends" and support is not None:
            new = redraw("ends", drawn, generator, support)
            low, high = support[0], distributions.below(support[1], drawn.dtype)
            return None if new is None else distributions.with_outliers(new, low, high, generator)
        new = redraw(distribution, drawn, generator, support, of_any_sign)
        if further.rows and (support is None or support[0] <= 0.0 < support[1]):
            if self._zero is None:
                self._zero = int(torch.randint(ZERO_ONE_IN * further.num_drawn + 1, (), generator=generator))
            if further.num_drawn > 1 and self._zero == self.num_drawn:
                return torch.zeros_like(drawn)
            mask = factor is None and support is not None  # what is compared: a row all true or all false
            top = distributions.below(support[1], drawn.dtype) if mask and support is not None else None
            return distributions.with_even_rows(drawn if new is None else new, generator, 0.0, top)
        numbers = self._numbers(drawn, support, factor, of_any_sign)
        return distributions.with_numbers(drawn if new is None else new, numbers, generator) if numbers else new

    def _alternately(self, negative: torch.Tensor) -> torch.Tensor:
        """Negative values, or in most runs positive ones by turns or after the first: products are far below zero."""
        if self._num_negative == 0:
            self._turn = int(torch.randint(4, (), generator=self._generator))
        self._num_negative += 1
        is_positive = self._num_negative > 1 if self._turn == 2 else self._turn < 2 and self._num_negative % 2 == 0
        return -negative if is_positive else negative

    def _redraw_seldom(
        self,
        distribution: Distribution,
        drawn: torch.Tensor,
        support: Range | None,
        factor: float | None,
        of_any_sign: bool,
    ) -> torch.Tensor | None:
        """The drawn values but for something rare."""
        if distribution in distributions.LEAVING:
            numbers = self._numbers(drawn, support, factor, of_any_sign)
            if numbers and rare.coin(self._generator):
                return rare.numbers(drawn, numbers, self._generator)
            if factor is not None and support is not None:
                return distributions.leave(distribution, drawn, self._generator, support, factor)
        return redraw(distribution, drawn, self._generator, support, of_any_sign)

    def _numbers(
        self, drawn: torch.Tensor, support: Range | None, factor: float | None, of_any_sign: bool
    ) -> list[float]:
        """Those that are to be mixed in and that the operator could have drawn, or that may lie outside."""
        low, high = (-math.inf, math.inf) if factor is not None or support is None else support
        low = max(low, 0.0) if support is None and not of_any_sign and float(drawn.min()) >= 0.0 else low
        held = [float(torch.tensor(each, dtype=drawn.dtype)) == each for each in self._further.floats]
        return [each for each, exact in zip(self._further.floats, held, strict=True) if exact and low <= each < high]


def _support(name: str, func: Any, args: Any, kwargs: Any) -> Range | None:
    """The half-open interval from which an operator draws; None: it has no such, or is not known."""
    if name in _UNIT:
        return 0.0, 1.0
    if name in _UNIFORM:
        low = args[1] if len(args) > 1 else kwargs.get("from", 0.0)
        high = args[2] if len(args) > 2 else kwargs.get("to", 1.0)
        return float(low), float(high)
    if name == "multinomial" and len(args) > 2 and args[2] and bool((args[0] > 0).all()):  # with replacement
        return 0, args[0].shape[-1]
    if name == "random_" and len(args) > 1:
        limits = [int(each) for each in args[1:3] if each is not None]
        return (limits[0], limits[1]) if len(limits) == 2 else (0, limits[0]) if args[1] is not None else None
    if name in ("randint", "randint_like"):
        first = args[name == "randint_like" :]
        return (first[0], first[1]) if func._overloadname.startswith("low") else (0, first[0])
    return None
