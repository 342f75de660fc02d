"""Hidden value distributions: what else a task might have drawn.

Each takes the values of one draw and returns others, or None where it does not apply. The new values stay in the range
of the operator that drew them; where that is not known, in the support of the values (non-negative ones stay so, and so
do those in [0, 1]), and integers in their range, so that an index stays an index; counts alone may become larger.
Whether the reference is well-behaved on them is found out by running it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import torch

from kernelrl.executor.api import Distribution
from kernelrl.executor.contest import rare
from kernelrl.executor.contest.values import all_are_finite

LARGE, LARGEST = 100.0, 1e4
LESS_FAR = 1 / 2
"""Share of the draws far from zero that are so by the smaller factor: rounding decides products of more."""
TINY, TINIEST = 1e-4, 1e-6
"""By what values are multiplied that are tiny, and those between large ends."""
SOME = 0.05
"""Share of the values that are not finite."""
FEW = 2 / 3
"""Share of the draws in which equal inputs part in one or two places alone, which nobody meets who looks at some."""
CLASSES = 4
"""Of the places of NaN, see `with_nan`."""
WHOLE = 0.9
"""Share of the draws with one infinity in which it is a whole row."""
WIDEST = 8.0
"""Decimal logarithm of the largest magnitude among values of all magnitudes; that of the smallest is as far below 0."""
DENORMAL = 1e-40
"""Below the smallest normal float32."""
OUTER, OUTERMOST = 3.0, 8.0
"""Distance of values outside the interval of a draw, in units of its larger end up to 1, and the largest of them, where
these are among others."""
FAR, FARTHER = 4.0, 6.0
"""Between these are values far from zero: a gate of them stays open, or closed, over many steps."""
OUTLIER = 10.5
"""The largest of what is at the ends of values that are tiny otherwise: who leaves an end out has another sum, and who
leaves the last one out another largest magnitude."""
NO_FLOAT = 1 << 25
"""From here on float32 does not have every integer."""
EVEN = 8
"""One in so many rows is all zero."""
FEW_INTEGERS = 16
"""Of a range of so many integers random draws meet each."""
SELDOM = 256
"""One element in so many, and at least one, is a number that matters where these are seldom."""
BEYOND = 4
"""Counts are below so many times the largest one and as much as that, times as many."""
MIXED = 0.125
"""Share of the values that are numbers with which the task compares."""


def redraw(
    name: Distribution,
    drawn: torch.Tensor,
    generator: torch.Generator,
    support: tuple[float, float] | None = None,
    of_any_sign: bool = False,
) -> torch.Tensor | None:
    """Values of the named distribution in the shape, dtype and support of `drawn`.

    Args:
        name: a key of `DISTRIBUTIONS`.
        drawn: what the task drew, of any shape.
        generator: source of randomness.
        support: the half-open interval from which it was drawn; None: it is guessed from the values.
        of_any_sign: then it is all numbers, though these values may be positive by chance.

    Returns:
        None: the distribution says nothing about such values.
    """
    if drawn.numel() == 0 or name == BOUNDARY:
        return None
    if not drawn.is_floating_point():
        return _INTEGERS[name](drawn, generator) if name in _INTEGERS else None
    if name in RARE:
        return _rare(name, drawn, generator, support, of_any_sign)
    if not all_are_finite(drawn):
        return None
    values = drawn.double()
    if name in NOT_FINITE:
        return DISTRIBUTIONS[name](values, generator).to(drawn.dtype)
    if support is not None:
        new = _fold(DISTRIBUTIONS[name](values, generator), *support, drawn.dtype)
        return None if torch.equal(new, drawn) else new
    new = within(DISTRIBUTIONS[name](values, generator), largest(drawn.dtype))
    fitted = new if of_any_sign else _fit(new, values)
    return None if fitted is None else fitted.to(drawn.dtype)


def largest(dtype: torch.dtype) -> float:
    """The largest number of hidden values: products and sums of some are finite."""
    return float(torch.finfo(dtype).max ** 0.75)


def within(values: torch.Tensor, most: float) -> torch.Tensor:
    """Values of which none is larger in magnitude, but for infinity: those that would be are as far below it."""
    sizes = values.abs()
    return torch.where((sizes > most) & sizes.isfinite(), values.sign() * (most * (most / sizes)), values)


def _rare(
    name: Distribution,
    drawn: torch.Tensor,
    generator: torch.Generator,
    support: tuple[float, float] | None,
    of_any_sign: bool,
) -> torch.Tensor | None:
    """The drawn values, with something rare within their support, in their own precision: timed calls wait for it."""
    least = float(drawn.min())
    if not math.isfinite(least + float(drawn.max())):
        return None
    most = largest(drawn.dtype)
    low, high = support or (least if least >= 0 and not of_any_sign else -most, most)
    return DISTRIBUTIONS[name](drawn, generator).clamp_(low, max(low, below(high, drawn.dtype)))


def shuffle(drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The same values in another order, or, where all are equal, scaled: for tasks that draw nothing at random."""
    order = torch.randperm(drawn.numel(), generator=generator)
    mixed = drawn.flatten()[order].reshape(drawn.shape)
    if drawn.is_floating_point() and torch.equal(mixed, drawn):
        return mixed * (0.5 + float(torch.rand((), generator=generator)))
    return mixed


def part_ways(drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The same values in another order, or with one or two others among them: for inputs that are always equal."""
    mixed = shuffle(drawn, generator)
    if float(torch.rand((), generator=generator)) < FEW:
        return torch.where(rare.few_places(drawn, generator), mixed, drawn)
    return mixed


def leave(
    name: str, drawn: torch.Tensor, generator: torch.Generator, support: tuple[float, float], factor: float = 1.0
) -> torch.Tensor:
    """Values outside the interval from which they were drawn, whose mean is well away from zero.

    Args:
        name: one of `LEAVING`: `normal` leaves some values as they are, a fifth becomes negative and a quarter larger
            than the interval; `uniform` makes all of them negative; `spike` does with one element, or one in every
            few rows, what `normal` does with many, and now and then much farther; `large` and `negative` have all of
            them far from zero, see `farther`.
        drawn: what the task drew.
        generator: source of randomness.
        support: the interval.
        factor: by what distances from the interval are multiplied, where values are scaled afterwards.
    """
    size = max(map(abs, support))
    values = drawn.double()
    if name == "uniform":
        return (-values.abs()).to(drawn.dtype)
    if name in ("large", "negative"):
        return farther(name, OUTER * values / (size or 1.0), generator).mul_(min(size, 1.0, factor)).to(drawn.dtype)
    coins = torch.rand(values.shape, generator=generator, dtype=values.dtype)
    if name == "spike":
        places = rare.some_places(values, generator)
        chosen = coins.view(-1)[places] * 0.45
        coins = torch.ones_like(coins)
        coins.view(-1)[places] = chosen
    outer = torch.randn(values.shape, generator=generator, dtype=values.dtype).abs_().mul_(OUTER)
    outer = outer.clamp_(max=OUTERMOST).mul_(min(size, 1.0, factor))
    if name == "spike":
        outer *= LARGEST ** (0.75 * float(torch.rand((), generator=generator)))
    return torch.where(coins < 0.2, -outer, torch.where(coins < 0.45, size + outer, values)).to(drawn.dtype)


def far(
    values: torch.Tensor, generator: torch.Generator, opposite: dict[int, torch.Tensor] | None = None
) -> torch.Tensor:
    """Values far from zero. Along all dimensions but the last of three, or one of two, they have one sign.

    Args:
        values: of any shape.
        generator: source of randomness.
        opposite: by length, the signs along that dimension of what was drawn before, which is to have others: all
            products of the two are far below zero. It takes these signs.
    """
    signed = {1: (), 2: (0,)}.get(values.dim(), (values.dim() - 1,))
    if values.dim() == 2 and not opposite and rare.coin(generator):
        signed, opposite = (1,), None
    form = [size if dim in signed else 1 for dim, size in enumerate(values.shape)]
    signs = (torch.rand(form, generator=generator) < 0.5).to(values.dtype) * 2 - 1
    if opposite is not None and signed and values.dim() > 1:
        if (before := opposite.get(signs.numel())) is not None:
            signs = -before.to(values.dtype).reshape(form)
        opposite[signs.numel()] = signs.flatten()
    elif bool((signs == signs.flatten()[:1]).all()):  # both signs are there
        signs = signs * torch.where(torch.arange(values.numel()).reshape(values.shape) < values.numel() / 2, 1, -1)
    spread = torch.rand(values.shape, generator=generator, dtype=torch.float64).to(values.dtype)
    return signs * (FAR + (FARTHER - FAR) * spread)


def farther(name: str, values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Values that all lie far from zero, and mostly on one side of it.

    Args:
        name: `negative`, where all are below zero, so that a maximum that starts at a number shows; or `large`, where
            all are above it, so that a minimum does, or in some draws each row has one sign.
        values: of any shape.
        generator: source of randomness.
    """
    away = (values.abs() + 1.0) * (LARGE if float(torch.rand((), generator=generator)) < LESS_FAR else LARGEST)
    if name == "negative":
        return -away
    if not values.dim() or rare.coin(generator) or rare.coin(generator):
        return away
    signs = torch.randint(2, (*values.shape[:-1], 1), generator=generator)
    return away * (1 - 2 * signs.to(values.dtype))


def with_outliers(values: torch.Tensor, low: float, high: float, generator: torch.Generator) -> torch.Tensor:
    """The same values with outliers at both ends: near `low` before the last one, which is near `high`.

    Those of inputs that are compared with each other are not equal, as they are smaller by an unknown share.
    """
    new = values.clone(memory_format=torch.contiguous_format).flatten()
    share = 1.0 - float(torch.rand((), generator=generator)) / 4
    for place, outlier in ((slice(1), high / 2), (slice(-2, -1), low / 2), (slice(-1, None), high)):
        new[place] = min(max(low, outlier * share), high)
    return new.reshape(values.shape)


def with_nan(drawn: torch.Tensor, generator: torch.Generator, number: int) -> torch.Tensor:
    """The same values with one or two NaN, or with some at places that up to four draws of one shape do not share.

    Args:
        drawn: of any shape.
        generator: source of randomness.
        number: of the draw.
    """
    places = (
        torch.arange(drawn.numel()).mul_(2654435761).bitwise_right_shift_(16).remainder_(CLASSES).reshape(drawn.shape)
    )
    if (together := _together(drawn, generator)) is not None:
        return drawn.masked_fill(together, torch.nan)
    chosen = torch.rand(drawn.shape, generator=generator) < CLASSES * SOME
    return drawn.masked_fill((places == number % CLASSES) & chosen, torch.nan)


def with_infinity(values: torch.Tensor, generator: torch.Generator, infinities: Sequence[float]) -> torch.Tensor:
    """The same values with some of these infinities, or with one of them together: in few places, or in a row.

    Where it is one alone, as where a maximum is compared with minus infinity, it is mostly a whole row as well.
    """
    first, last = infinities[0], infinities[-1]
    if (places := _together(values, generator)) is not None:
        new = values.masked_fill(places, first if rare.coin(generator) else last)
    else:
        infinite = torch.where(torch.rand(values.shape, generator=generator) < 0.5, first, last).to(values.dtype)
        new = torch.where(torch.rand(values.shape, generator=generator) < SOME, infinite, values)
    if first == last and new.dim() > 1 and float(torch.rand((), generator=generator)) < WHOLE:
        rows = new.reshape(-1, new.shape[-1])
        rows[int(torch.randint(len(rows), (), generator=generator))] = first
        new = rows.reshape(values.shape)
    return new


def _together(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor | None:
    """One or two places, or stretches of rows; None: what is not finite is anywhere."""
    kind = int(torch.randint(4, (), generator=generator))
    return None if kind == 0 else rare.few_places(values, generator) if kind == 1 else rare.stretches(values, generator)


def with_even_rows(values: torch.Tensor, generator: torch.Generator, zero: float, top: float | None) -> torch.Tensor:
    """The same values but for some rows that hold one number alone, and a part along the first of three dimensions.

    Args:
        values: of any shape; without two rows they stay.
        generator: source of randomness.
        zero: number of one in eight rows, and at least of one.
        top: number of as many others, where there are more than two rows; None: of none.
    """
    if values.dim() < 2 or not values.numel() or values.numel() == values.shape[-1]:
        return values
    rows = values.reshape(-1, values.shape[-1]).clone()
    order = torch.randperm(len(rows), generator=generator)
    count = max(1, len(rows) // EVEN)
    if top is not None and len(rows) > 2:
        rows[order[count : 2 * count]] = top
    rows[order[:count]] = zero
    new = rows.reshape(values.shape)
    if values.dim() > 2 and len(new) > 1:
        new[int(torch.randint(len(new), (), generator=generator))] = zero
    return new


def with_numbers(
    values: torch.Tensor, numbers: Sequence[float], generator: torch.Generator, rest: torch.Tensor | None = None
) -> torch.Tensor:
    """The same values with an eighth of them replaced by some of these numbers, and half of the others by `rest`."""
    coins = torch.rand(values.shape, generator=generator)
    which = torch.randint(len(numbers), values.shape, generator=generator)
    mixed = values if rest is None else torch.where(coins > (1 + MIXED) / 2, rest.to(values.dtype), values)
    return torch.where(coins < MIXED, torch.tensor(numbers, dtype=values.dtype)[which], mixed)


def with_special(
    values: torch.Tensor,
    numbers: Sequence[int],
    generator: torch.Generator,
    rest: torch.Tensor,
    mixed: Literal["often", "seldom"],
) -> torch.Tensor:
    """Integers among which these numbers come often, as in `with_numbers`, and at the ends of rows, or in few places.

    One row in four begins with one, and one in four ends with one; a single row does both. The few places are in the
    second half.
    """
    some = torch.tensor(numbers, dtype=values.dtype)
    if mixed == "seldom":
        new = values.clone(memory_format=torch.contiguous_format)
        count = min(len(numbers), max(1, values.numel() // SELDOM))
        first = values.numel() // 2
        places = first + torch.randint(values.numel() - first, (count,), generator=generator)
        new.view(-1)[places] = some[torch.randperm(len(numbers), generator=generator)[:count]]
        return new
    new = with_numbers(values, numbers, generator, rest).contiguous()
    rows = new.view(-1, values.shape[-1]) if values.dim() else new.view(1, 1)
    for end in (0, -1):
        chosen = torch.rand(len(rows), generator=generator) < (0.25 if len(rows) > 1 else 1.0)
        which = torch.randint(len(numbers), (len(rows),), generator=generator)
        rows[:, end] = torch.where(chosen, some[which], rows[:, end])
    return new


def counts(drawn: torch.Tensor, generator: torch.Generator, least: int, mixed: bool) -> torch.Tensor | None:
    """Other whole numbers in place of counts, of which there is no largest: some are beyond all that were drawn.

    Args:
        drawn: whole numbers, of any dtype.
        generator: source of randomness.
        least: the smallest that may come.
        mixed: half of the numbers stay.
    """
    whole = drawn.long()
    limits = torch.finfo(drawn.dtype) if drawn.is_floating_point() else torch.iinfo(drawn.dtype)
    end = min(BEYOND * (int(whole.max()) + BEYOND), int(limits.max))
    if end <= least or int(whole.min()) < least:  # they were no counts, or have left their dtype
        return None
    further = torch.randint(least, end, whole.shape, generator=generator)
    return torch.where(torch.rand(whole.shape, generator=generator) < 0.5, further, whole) if mixed else further


def shares(name: Distribution, drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor | None:
    """Other positive shares of one along the last dimension, as a Dirichlet distribution gives them."""
    if name in SPREADS:
        logits = torch.randn(drawn.shape, generator=generator, dtype=torch.float64) * SPREADS[name]
        return logits.softmax(-1).to(drawn.dtype).clamp_min(torch.finfo(drawn.dtype).tiny)
    if name in NOT_FINITE or (new := redraw(name, drawn, generator, (0.0, 1.0))) is None:
        return None
    new = new.clamp_min(torch.finfo(new.dtype).tiny)
    return new / new.sum(-1, keepdim=True)


def below(high: float, dtype: torch.dtype) -> float:
    """The largest number below another one."""
    return float(torch.nextafter(torch.tensor(high, dtype=dtype), torch.tensor(-torch.inf, dtype=dtype)))


def _normal(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(values.shape, generator=generator, dtype=values.dtype)


def _uniform(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.rand(values.shape, generator=generator, dtype=values.dtype) * 2 - 1


def _constant(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """One of the drawn values everywhere."""
    index = int(torch.randint(values.numel(), (), generator=generator))
    return torch.full_like(values, values.flatten()[index].item())


def _ties(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Few distinct values, so that maxima and orders are not unique."""
    step = float(values.std(correction=0)) or 1.0
    return (values / step).round() * step


def _zeros(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Half of the values are zero."""
    return values * (torch.rand(values.shape, generator=generator) < 0.5)


def _negative(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """All values are below zero: a maximum that starts at 0 shows."""
    return -values.abs()


def _large(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return values * LARGE


def _tiny(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return values * TINY


def _wide(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """All magnitudes are as likely, so that a limit that a task sets shows, be it ever so far off."""
    exponents = (torch.rand(values.shape, generator=generator, dtype=values.dtype) * 2 - 1) * WIDEST
    signs = torch.randn(values.shape, generator=generator, dtype=values.dtype).sign()
    return signs * exponents.mul_(math.log(10)).exp_()


def _ends(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    low = -OUTLIER if bool((values < 0).any()) else float(values.min())
    return with_outliers(values * TINIEST, low, OUTLIER, generator)


def _denormal(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return values * DENORMAL


def _nan(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Some values are NaN."""
    return values.masked_fill(torch.rand(values.shape, generator=generator) < SOME, torch.nan)


def _infinite(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Some values are infinite."""
    return with_infinity(values, generator, (torch.inf, -torch.inf))


DISTRIBUTIONS: dict[Distribution, Callable[[torch.Tensor, torch.Generator], torch.Tensor]] = {
    "normal": _normal,
    "uniform": _uniform,
    "constant": _constant,
    "ties": _ties,
    "zeros": _zeros,
    "negative": _negative,
    "large": _large,
    "tiny": _tiny,
    "wide": _wide,
    "denormal": _denormal,
    "nan": _nan,
    "infinite": _infinite,
    "rows": rare.rows,
    "spike": rare.spike,
    "grains": rare.grains,
    "single": rare.single,
    "ordered": rare.ordered,
    "ends": _ends,
}
BOUNDARY: Distribution = "boundary"
"""Values between those of two draws of the task's own, beside a place where an output changes (`judging/boundary.py`).
"""
RARE: tuple[Distribution, ...] = ("rows", "spike", "grains")
"""Those that are the task's own but for something rare."""
LEAVING = ("normal", "uniform", "large", "negative", "spike")
"""Those that say little within an interval, and in which values may leave it."""
PATTERNED: tuple[Distribution, ...] = (*RARE, "single", "ordered")
"""Those in which coins are no longer independent of each other."""
MIXES: dict[str, Literal["often", "seldom", "alone"]] = {
    "normal": "often",
    "uniform": "seldom",
    "ties": "often",
    "spike": "seldom",
    "rows": "alone",
}
"""Those in which integers hold numbers that matter to the reference, and how often, or whether a row has no other."""
SPREADS = {"normal": 1.0, "large": 4.0, "wide": 16.0}
"""Those in which shares of one are as uneven as a softmax of normal numbers of this size makes them."""
COUNTED = ("normal", "uniform", "large")
"""Those in which counts may be larger than any that were drawn."""
WILD = ("uniform", "negative", "large")
"""Those that may hold values far from zero, or farther."""
NOT_FINITE = ("nan", "infinite")
"""Those for tasks that say what becomes of such values."""
UNORDERED = ("constant", "ties", "zeros", "single", "rows", "grains")
"""Those under which the order of equal values decides an index, so that an unstable sort has no one right answer."""


def _one_integer(drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The smallest everywhere, the largest, or another: sums and counts of them are as large as they get."""
    kind = int(torch.randint(3, (), generator=generator))
    index = int(torch.randint(drawn.numel(), (), generator=generator))
    return (drawn.flatten()[index] if kind == 0 else drawn.min() if kind == 1 else drawn.max()).expand_as(drawn).clone()


def _extremes(drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The smallest and the largest of the drawn values."""
    return torch.where(torch.rand(drawn.shape, generator=generator) < 0.5, drawn.min(), drawn.max())


def _neighbours(drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor | None:
    """Numbers so large that float32 does not tell them apart, some of them equal; None: the task draws no such."""
    least, most = int(drawn.min()), int(drawn.max())
    if most < NO_FLOAT:
        return None
    return (most - torch.randint(drawn.numel(), drawn.shape, generator=generator)).clamp_(min=least)


def _often_one_integer(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """In two of three draws one integer everywhere: beside values that differ along the last dimension alone, which of
    these an index names shows in a mean of many rows."""
    one = _one_integer(values, generator)
    return values if float(torch.rand((), generator=generator)) < 1 / 3 else one


_INTEGERS = {
    "constant": _one_integer,
    "uniform": _often_one_integer,
    "ties": _extremes,
    "large": _neighbours,
    "single": rare.single,
    "ordered": rare.ordered,
    "spike": rare.shares,
    "rows": rare.integer_rows,
    "grains": rare.integer_run,
}


def _fold(new: torch.Tensor, low: float, high: float, dtype: torch.dtype) -> torch.Tensor:
    """Reflect values at the ends of [low, high) until they lie within."""
    width = high - low
    folded = (high - (width - (new - low) % (2 * width)).abs()).to(dtype)
    end = torch.nextafter(torch.tensor(high, dtype=dtype), torch.tensor(low, dtype=dtype)) if width > 0 else high
    return folded.clamp(max=end)


def _fit(new: torch.Tensor, values: torch.Tensor) -> torch.Tensor | None:
    """Fold new values into the support of the drawn ones; None: nothing would be left of the distribution."""
    low, high = float(values.min()), float(values.max())
    if low < 0:
        return new
    new = new.abs()
    if high <= 1 and bool((new > 1).any()):
        new = 1 - (1 - new % 2).abs()
    if low > 0:
        if float(new.max()) < low:
            return None
        new = new.clamp_min(low)
    return None if torch.equal(new, values) else new
