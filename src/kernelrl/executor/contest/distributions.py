"""Hidden value distributions: what else a task might have drawn.

Each takes the values of one draw and returns others, or None where it does not apply. The new values stay in the range
of the operator that drew them; where that is not known, in the support of the values (non-negative ones stay so, and so
do those in [0, 1]), and integers in their range, so that an index stays an index. Whether the reference is
well-behaved on them is found out by running it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch

from kernelrl.executor.api import Distribution

Variation = Literal["others", "part", "within", "reorder"]
"""How an input that the task makes constant varies, see `VARIATIONS`."""
LARGE = 100.0
TINY = 1e-6
SOME = 0.05
"""Share of the values that are not finite."""
WIDEST = 8.0
"""Decimal logarithm of the largest magnitude among values of all magnitudes; that of the smallest is as far below 0."""
DENORMAL = 1e-40
"""Below the smallest normal float32."""


def redraw(
    name: Distribution,
    drawn: torch.Tensor,
    generator: torch.Generator,
    support: tuple[float, float] | None = None,
) -> torch.Tensor | None:
    """Values of the named distribution in the shape, dtype and support of `drawn`.

    Args:
        name: a key of `DISTRIBUTIONS`.
        drawn: what the task drew, of any shape.
        generator: source of randomness.
        support: the half-open interval from which it was drawn; None: it is guessed from the values.

    Returns:
        None: the distribution says nothing about such values.
    """
    if drawn.numel() == 0:
        return None
    if not drawn.is_floating_point():
        return _INTEGERS[name](drawn, generator) if name in _INTEGERS else None
    values = drawn.double()
    if not bool(values.isfinite().all()):
        return None
    if name in NOT_FINITE:
        return DISTRIBUTIONS[name](values, generator).to(drawn.dtype)
    if support is not None:
        new = _fold(DISTRIBUTIONS[name](values, generator), *support, drawn.dtype)
        return None if torch.equal(new, drawn) else new
    fitted = _fit(DISTRIBUTIONS[name](values, generator), values)
    return None if fitted is None else fitted.to(drawn.dtype)


def shuffle(drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The same values in another order, or, where all are equal, scaled: for tasks that draw nothing at random."""
    order = torch.randperm(drawn.numel(), generator=generator)
    mixed = drawn.flatten()[order].reshape(drawn.shape)
    if drawn.is_floating_point() and torch.equal(mixed, drawn):
        return mixed * (0.5 + float(torch.rand((), generator=generator)))
    return mixed


def vary(drawn: torch.Tensor, generator: torch.Generator, alone: bool = True) -> torch.Tensor:
    """Other values for an input that the task makes constant: an identity, a range of indices, ones.

    Integers and booleans come in another order, so an index stays an index; where all are equal, as in a mask that
    hides nothing or in lengths that are full, some become others. Finite floating-point values move by up to their root
    mean square (1 if all are zero); non-negative ones stay so, and ascending ones ascend.

    Args:
        drawn: the task's values.
        generator: source of randomness.
        alone: whether an integer or boolean that is alone becomes another.
    """
    if not drawn.is_floating_point():
        mixed = drawn.flatten()[torch.randperm(drawn.numel(), generator=generator)].reshape(drawn.shape)
        if drawn.numel() == 1:
            return _another(drawn, generator) if alone else drawn
        return _unequal(drawn, generator) if torch.equal(mixed, drawn) else mixed
    values = drawn.double()
    finite = values.isfinite()
    known = values[finite]
    size = float(known.square().mean().sqrt()) if known.numel() else 0.0
    reach = (size or 1.0) * (0.5 + float(torch.rand((), generator=generator)) / 2)  # a mean or norm is not known either
    step = torch.rand(values.shape, generator=generator, dtype=values.dtype) * reach
    if known.numel() and float(known.min()) < 0:
        step = step * 2 - reach
    new = torch.where(finite, values + step, values)
    return (new.sort().values if _ascends(drawn) else new).to(drawn.dtype)


def part(drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Other ascending integers between the first and the last one: offsets at which parts of other lengths begin."""
    first, last, num_between = int(drawn[0]), int(drawn[-1]), drawn.numel() - 2
    between = torch.randperm(last - first - 1, generator=generator)[:num_between].sort().values
    return torch.cat([drawn[:1], (first + 1 + between).to(drawn.dtype), drawn[-1:]])


def within(drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Other numbers of [0, 1]: levels, shares, probabilities."""
    new = torch.rand(drawn.shape, generator=generator, dtype=torch.float64).to(drawn.dtype)
    return new.sort().values if _ascends(drawn) else new


def reorder(drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The same rows in another order: an identity becomes a permutation."""
    return drawn[torch.randperm(drawn.shape[0], generator=generator)]


VARIATIONS: dict[Variation, Callable[[torch.Tensor, torch.Generator], torch.Tensor]] = {
    "others": vary,
    "part": part,
    "within": within,
    "reorder": reorder,
}


def variations(drawn: torch.Tensor) -> list[Variation]:
    """In which ways an input that the task makes constant may vary, the furthest first."""
    found: list[Variation] = ["others"]
    if not drawn.is_floating_point() and drawn.dtype != torch.bool and drawn.numel() > 2 and _ascends(drawn):
        found += ["part"] if int(drawn[-1] - drawn[0]) >= drawn.numel() else []
    if drawn.is_floating_point() and bool(((drawn >= 0) & (drawn <= 1)).all()):
        found.append("within")
    return found + (["reorder"] if drawn.dim() and bool((drawn != drawn[:1]).any()) else [])


def _ascends(values: torch.Tensor) -> bool:
    """Whether numbers are in strictly ascending order, on which a search among them relies."""
    return values.dim() == 1 and values.numel() > 1 and bool((values[1:] > values[:-1]).all())


def _unequal(drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A fifth of equal integers or booleans becomes another."""
    return torch.where(torch.rand(drawn.shape, generator=generator) < 0.2, _another(drawn, generator), drawn)


def _another(drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """In place of a number that all are, numbers from half of it on; in place of a boolean, of 0 and of 1 the other."""
    value = int(drawn.flatten()[0])
    if drawn.dtype == torch.bool or value in (0, 1):
        return torch.full_like(drawn, 1 - value)
    low, high = (value // 2, value) if value > 0 else (value + 1, value // 2 + 1)
    return torch.randint(low, max(high, low + 1), drawn.shape, generator=generator).to(drawn.dtype)


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
    return torch.randn(values.shape, generator=generator, dtype=values.dtype).sign() * 10**exponents


def _denormal(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return values * DENORMAL


def _nan(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Some values are NaN."""
    return values.masked_fill(torch.rand(values.shape, generator=generator) < SOME, torch.nan)


def _infinite(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Some values are infinite."""
    infinite = torch.where(torch.rand(values.shape, generator=generator) < 0.5, torch.inf, -torch.inf).to(values.dtype)
    return torch.where(torch.rand(values.shape, generator=generator) < SOME, infinite, values)


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
}
NOT_FINITE = ("nan", "infinite")
"""Those for tasks that say what becomes of such values."""
UNORDERED = ("constant", "ties", "zeros")
"""Those under which the order of equal values decides an index, so that an unstable sort has no one right answer."""


def _one_integer(drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    index = int(torch.randint(drawn.numel(), (), generator=generator))
    return drawn.flatten()[index].expand(drawn.shape).clone()


def _extremes(drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The smallest and the largest of the drawn values."""
    return torch.where(torch.rand(drawn.shape, generator=generator) < 0.5, drawn.min(), drawn.max())


_INTEGERS = {"constant": _one_integer, "ties": _extremes}


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
