"""Which of a task's parameters and buffers get other values, and which values.

The values stand for those of a trained network: what a constructor leaves between parameters (copies, zeros, a norm)
does not hold between them, and what it leaves tiny has a size that matters.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import torch

from kernelrl.executor import trees
from kernelrl.executor.contest import constants
from kernelrl.executor.contest.values import all_are_finite

SMALL = 0.5
"""Largest value that takes the place of a zero."""
TINY = 0.1
"""Constants below it become as large as that, or up to ten times larger."""
TYPICAL = 0.3
"""Least root mean square of a random vector."""
FAR, FARTHEST = 4.0, 10.0
"""Magnitudes of the few elements of a vector that open or close a gate."""
SHARE_FAR = 0.2
MOST_FAR = 4
"""Vectors of which some elements are far from zero: with more of them little of its inputs would be left behind many
layers."""
SHARE_CLAMPED = 0.125
SHARE_OPPOSITE = 0.25
"""Share of the elements of a parameter of equal numbers, such as the ones of a norm, that get the other sign."""
DISTANCES = ((1.0, 3.0), (4.0, 10.0), (104.0, 200.0))
"""Intervals in which a vector lies whose elements are on one side of zero: one of three. In float32 the
exponential of the last is zero or infinite."""
FAINT = 1 / 64
"""By what parameters are multiplied that leave the next norm about as little as its epsilon."""
SHARE_ZERO = 0.125
"""Share of the elements of a buffer of positive numbers that are zero in one call."""
STEEP, STEEPEST = 1.25, 3.0
"""A slope between these is above 1: the larger of x and its multiple is no longer what a slope below zero gives."""
SHARE_STEEP = SHARE_FALLING = 0.25
BELOW, ABOVE = (0.3, 0.9), (1.2, 4.0)
"""Norms of the slices of a parameter whose norms are limited, in units of the limit: half of them exceed it."""
FEWEST = 16
"""Vectors of fewer elements have none of those."""

Slope = Literal["steep", "falling"]
"""A slope above 1, or below 0."""
Seldom = Literal["lasting", "far", "some"]
"""A row or element of zeros and one that is another's copy; for `far`, elements of vectors far from zero; and for
`lasting`, in some sets of parameters, a square matrix as well that gives back what it is given."""
Confined = Literal["above", "within", "near", "lower", "upper", "scaled"]
"""How a parameter varies that the reference does not bear otherwise: not below zero, within [0, 1], little, by factors
and below or above its diagonal (a Cholesky factor stays one), or by factors alone (an identity stays invertible)."""
MARGIN, LITTLE = 0.02, 0.02
"""What is within [0, 1] is so far from its ends, and what varies little by up to so much."""
FEWEST_ROWS = 5
"""With fewer rows, or elements of a vector, none is rare."""
FARTHEST_OF_ALL = 100.0
LASTING = (1.0, 8.0)
"""Multiples of an identity: a state lasts with one where it is multiplied, with the other where a softmax follows."""
SHARE_LASTING = 0.75
SHARE_BESIDE = 0.1
"""What such a matrix holds beside it, in units of what it would be."""


def find_drawn(shown: dict[str, Any], keyed: dict[str, Any]) -> frozenset[int]:
    """Numbers of the registrations whose values depend on random draws, of copies (`copy.deepcopy`) as well.

    Args:
        shown: what the constructor reported with draws from the program's seed.
        keyed: what it reported with hidden draws.
    """
    pairs = enumerate(zip(shown["tensors"], keyed["tensors"], strict=False))
    varies = ("random", "computed")
    return frozenset(number for number, (old, new) in pairs if new["origin"] in varies and old["sum"] != new["sum"])


def find_variable(report: dict[str, Any], drawn: frozenset[int]) -> list[int]:
    """Numbers of the registrations that may get other values.

    What the program writes down or computes and does not train stays: masks, tables, filters.
    """
    return [number for number, tensor in enumerate(report["tensors"]) if _is_variable(tensor, number in drawn)]


def _is_variable(tensor: dict[str, Any], drawn: bool) -> bool:
    size, floating = math.prod(tensor["shape"]), trees.DTYPES[tensor["dtype"]].is_floating_point
    if tensor["name"] is None or tensor["shared"] or not size:
        return False
    equal = tensor["origin"] == "constant" or (tensor["origin"] == "literal" and floating and size > 1)
    if tensor["kind"] == "buffer":
        return equal and (floating or bool(tensor["shape"]))  # what has no dimension counts steps
    if drawn or equal:
        return floating and (drawn or not tensor["fixed"])
    return floating and not tensor["frozen"]


def find_slopes(
    report: dict[str, Any], read: Callable[[dict[str, Any]], torch.Tensor], numbers: Iterable[int], known: Sequence[str]
) -> frozenset[int]:
    """Numbers of parameters that may be slopes: those known by name, and single numbers between -1 and 1."""

    def may_be_slope(tensor: dict[str, Any]) -> bool:
        if tensor["name"] in known:
            return True
        return is_number(tensor) and abs(float(read(tensor))) < 1

    return frozenset(number for number in numbers if may_be_slope(report["tensors"][number]))


def find_squares(report: dict[str, Any], numbers: Iterable[int]) -> list[int]:
    """Numbers of the registrations that are square matrices of parameters, of two rows or more."""

    def is_square(tensor: dict[str, Any]) -> bool:
        rows, *columns = tensor["shape"] or [0]
        return tensor["kind"] == "parameter" and columns == [rows] and rows > 1

    return [number for number in numbers if is_square(report["tensors"][number])]


def is_number(tensor: dict[str, Any]) -> bool:
    """Whether a registration is a parameter of one floating-point number."""
    is_one = tensor["kind"] == "parameter" and math.prod(tensor["shape"]) == 1
    return is_one and trees.DTYPES[tensor["dtype"]].is_floating_point


def vary(
    report: dict[str, Any],
    read: Callable[[dict[str, Any]], torch.Tensor],
    numbers: Iterable[int],
    drawn: frozenset[int],
    seed: int,
    enlarged: bool,
    clamped: Mapping[str, Sequence[float]] | None = None,
    norms: Mapping[str, Sequence[float]] | None = None,
    slopes: Mapping[int, Slope] | None = None,
    seldom: Seldom | None = None,
    crossed: bool = False,
    confined: Mapping[int, Confined] | None = None,
) -> dict[int, torch.Tensor]:
    """Hidden values by the number of the registration.

    Args:
        report: what the reference's constructor registered.
        read: a registered tensor's values.
        numbers: of those that get others.
        drawn: see `find_drawn`.
        seed: of the values.
        enlarged: what is tiny gets a size that matters.
        clamped: limits of parameters by name, some values of which lie beyond these (`Thresholds.found`).
        norms: likewise limits of the norms of their slices, half of which lie beyond these.
        slopes: by number, those that are slopes, and of which kind a single one is.
        seldom: what is rare among the values of each.
        crossed: a fifth of a buffer of equal whole numbers become others: a mask of ones hides.
        confined: by number, those of which the reference bears some values alone, and which.
    """
    given = {}
    numbers = list(numbers)
    vectors = [each for each in numbers if len(report["tensors"][each]["shape"]) == 1]
    chances = random.Random(seed)
    far = chances.sample(vectors, min(MOST_FAR, len(vectors)))
    squares = find_squares(report, numbers)
    lasting = chances.choice(squares) if seldom == "lasting" and squares and chances.random() < SHARE_LASTING else None
    for number in numbers:
        tensor = report["tensors"][number]
        values = read(tensor)
        generator = torch.Generator().manual_seed(seed ^ number)
        if not values.is_floating_point():
            given[number] = constants.vary(values, generator)
        elif all_are_finite(values):
            wide = values if values.dtype == torch.float64 else values.float()
            coins = torch.rand(wide.shape, generator=generator, dtype=wide.dtype)
            if confined and number in confined:
                given[number] = _vary_confined(wide, coins, confined[number]).to(values.dtype)
                continue
            if number in drawn:
                new = _vary_drawn(wide, coins, enlarged)
            elif tensor["origin"] in ("constant", "literal"):
                new = _vary_constant(wide, coins, enlarged and tensor["kind"] == "parameter")
                if tensor["kind"] == "parameter" and wide.numel() > 1:
                    new = torch.where(torch.rand(new.shape, generator=generator) < SHARE_OPPOSITE, -new, new)
            else:
                new = wide + (coins - 0.5).mul_(0.2 * _size(wide))
            if enlarged and number in far and _may_be_bias(tensor, wide, number in drawn):
                new = _with_far_ones(new, generator)
            if clamped and tensor["name"] in clamped:
                new = _beyond_limits(new, clamped[tensor["name"]], generator)
            if norms and tensor["name"] in norms:
                new = _about_norm(new, norms[tensor["name"]], generator)
            if slopes and number in slopes:
                new = _sloping(new, slopes[number], generator)
            if seldom:
                new = _with_seldom_ones(new, number in far and seldom != "some", generator)
            if number == lasting:
                new = SHARE_BESIDE * new + chances.choice(LASTING) * torch.eye(len(new), dtype=new.dtype)
            is_mask = tensor["kind"] == "buffer" and values.numel() > 1 and constants.are_alike(values)
            if crossed and is_mask and constants.are_whole(values):
                new = constants.with_others(new, values, generator)
            given[number] = new.to(values.dtype)
    return given


def one_sided(
    report: dict[str, Any], read: Callable[[dict[str, Any]], torch.Tensor], numbers: Iterable[int], seed: int
) -> dict[int, torch.Tensor]:
    """Biases far from zero, each on one side of it, where a maximum or a sum of exponentials of many values lies too.

    Args:
        report: what the reference's constructor registered.
        read: a registered tensor's values.
        numbers: of those that may get other values.
        seed: of the values.
    """
    given = {}
    for number in numbers:
        tensor = report["tensors"][number]
        values = read(tensor)
        is_vector = 1 < values.numel() == max(values.shape) and values.is_floating_point()
        if not is_vector or tensor["kind"] != "parameter" or not all_are_finite(values) or float(values.min()) > 0:
            continue
        generator = torch.Generator().manual_seed(seed ^ number)
        sign, which = torch.rand(2, generator=generator).tolist()
        low, high = DISTANCES[int(which * len(DISTANCES))]
        new = low + (high - low) * torch.rand(values.shape, generator=generator, dtype=torch.float64)
        given[number] = (new if sign < 0.5 else -new).to(values.dtype)
    return given


def faint(given: Mapping[int, torch.Tensor], numbers: Iterable[int]) -> dict[int, torch.Tensor]:
    """Some of the given values made so small that the epsilon of a norm behind them shows."""
    return {number: given[number] * FAINT for number in numbers if given[number].is_floating_point()}


def vanishing(given: Mapping[int, torch.Tensor], numbers: Iterable[int], seed: int) -> dict[int, torch.Tensor]:
    """Zeros among given values that are all above zero, so that the epsilon shows that a root of them has."""
    found = {}
    for number in numbers:
        values = given.get(number)
        if values is not None and values.is_floating_point() and values.numel() > 1 and float(values.min()) > 0:
            coins = torch.rand(values.shape, generator=torch.Generator().manual_seed(seed ^ number))
            found[number] = values.masked_fill(coins <= max(SHARE_ZERO, float(coins.min())), 0.0)
    return found


def _beyond_limits(values: torch.Tensor, limits: Sequence[float], generator: torch.Generator) -> torch.Tensor:
    """Some values, at least one, beyond a limit; two to four times as large where none is known."""
    chosen, level, which = torch.rand((3, *values.shape), generator=generator, dtype=values.dtype)
    far = values * (2 + 2 * level)
    if limits:
        highest = which < 0.5 if len(limits) > 1 else values <= limits[0]
        low, high = min(limits), max(limits)
        far = torch.where(highest, high + level * (1 + abs(high)), low - level * (1 + abs(low)))
    return torch.where(chosen <= max(SHARE_CLAMPED, float(chosen.min())), far, values)


def _about_norm(values: torch.Tensor, known: Sequence[float], generator: torch.Generator) -> torch.Tensor:
    """The same directions along a dimension, with norms of which half are above a limit."""
    limit, order, dim = known
    slices = values.movedim(int(dim), 0)
    norms: torch.Tensor = torch.linalg.vector_norm(slices.reshape(len(slices), -1), order, dim=1)
    coins, level = torch.rand((2, len(slices)), generator=generator, dtype=values.dtype)
    above, below = (low + (high - low) * level for low, high in (ABOVE, BELOW))
    factors = limit * torch.where(coins < 0.5, above, below) / norms.clamp_min(torch.finfo(values.dtype).tiny)
    scaled: torch.Tensor = slices * factors.reshape(-1, *[1] * (slices.dim() - 1))
    return scaled.movedim(0, int(dim)).contiguous()


def _sloping(values: torch.Tensor, kind: Slope, generator: torch.Generator) -> torch.Tensor:
    """A quarter of several slopes is steep and a quarter falls; a single one is of that kind."""
    coins, level = torch.rand((2, *values.shape), generator=generator, dtype=values.dtype)
    if values.numel() == 1:
        coins = torch.full_like(coins, 0.0 if kind == "steep" else SHARE_STEEP)
    steep, falling = STEEP + (STEEPEST - STEEP) * level, -TINY - (1 - TINY) * level
    values = torch.where(coins < SHARE_STEEP + SHARE_FALLING, falling, values)
    return torch.where(coins < SHARE_STEEP, steep, values)


def _with_seldom_ones(values: torch.Tensor, far_ones: bool, generator: torch.Generator) -> torch.Tensor:
    """Something rare, as in `contest.rare`, along the first dimension. What is positive stays so."""
    if not values.dim() or len(values) < FEWEST_ROWS:
        return values
    new = values.clone(memory_format=torch.contiguous_format)
    zero, copy, original, far, low = torch.randperm(len(values), generator=generator)[:5].tolist()
    new[copy] = new[original]
    positive = float(values.min()) > 0
    if not positive:
        new[zero] = 0.0
    if far_ones and values.dim() == 1:
        new[far] = FARTHEST_OF_ALL
        new[low] = new[low] if positive else -FARTHEST_OF_ALL
    return new


def _vary_constant(values: torch.Tensor, coins: torch.Tensor, enlarged: bool) -> torch.Tensor:
    first = float(values.flatten()[0])
    if not first:
        if values.numel() == 1:
            return (0.5 + coins).mul_(SMALL)
        fan_in = values[0].numel() if values.dim() > 1 else 1
        return (2 * coins - 1).mul_(min(SMALL, fan_in**-0.5))
    if enlarged and abs(first) < TINY:
        return coins.mul(math.log(10.0)).exp_().mul_(math.copysign(TINY, first))
    return values * (0.5 + coins)


def _vary_confined(values: torch.Tensor, coins: torch.Tensor, kind: Confined) -> torch.Tensor:
    match kind:
        case "above":
            return torch.where(values == 0, SMALL * coins, values.abs() * (0.5 + coins))
        case "within":
            return MARGIN + (1 - 2 * MARGIN) * coins
        case "lower" | "upper" if values.dim() >= 2:
            beside = TYPICAL * (2 * coins - 1)
            return values * (0.5 + coins) + (beside.tril(-1) if kind == "lower" else beside.triu(1))
        case "lower" | "upper" | "scaled":
            return values * (0.5 + coins)
        case "near":
            return values + LITTLE * coins


def _vary_drawn(values: torch.Tensor, coins: torch.Tensor, enlarged: bool) -> torch.Tensor:
    """Each value is off by something of its tensor's size; those that are all positive stay so."""
    if float(values.min()) > 0:
        new = values * (0.5 + coins)
        largest = float(new.max())
        return new / largest if enlarged and largest < TINY else new
    size = _size(values)
    new = values + coins.sub(0.5).mul_(math.sqrt(3) * size)
    if not enlarged:
        return new
    rows = values.shape[0] if values.dim() else 1
    least = max(rows, values.numel() // rows) ** -0.5 if values.dim() > 1 else TYPICAL
    if values.dim() > 2:  # of convolutions many may lie behind each other, with half of the numbers cut off by each
        least = max(least, (2 * rows / values.numel()) ** 0.5)
    return new * max(1.0, least / size)


def _may_be_bias(tensor: dict[str, Any], values: torch.Tensor, drawn: bool) -> bool:
    """Whether it is a vector of numbers of either sign that the program does not compute."""
    known = tensor["kind"] == "buffer" or (tensor["origin"] == "computed" and not drawn)
    return not known and values.dim() == 1 and len(values) >= FEWEST and float(values.min()) <= 0


def _with_far_ones(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A few elements become so large that a gate with that bias stays open or closed over many steps."""
    chosen, level = torch.rand((2, len(values)), generator=generator, dtype=values.dtype)
    return torch.where(chosen < SHARE_FAR, (FAR + level * (FARTHEST - FAR)).copysign(values), values)


def _size(values: torch.Tensor) -> float:
    """Root mean square, and never zero."""
    return max(float(values.square().mean().sqrt()), torch.finfo(values.dtype).tiny)
