"""Other values for inputs that a task makes constant: masks, limits, lengths, steps, offsets, an identity."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch

from kernelrl.executor.contest.distributions import NO_FLOAT

Variation = Literal["short", "zeroed", "mixed", "others", "whole", "either", "more", "part", "within", "reorder"]
"""How such an input varies, see `VARIATIONS`. A positive integer that is alone is larger for `more`, and for `either`
now larger and now smaller."""
FURTHER = 64
"""It becomes at most so many times as large, each order of magnitude as likely."""
SHARE_OTHERS = 0.2
"""Share of equal or whole numbers that become others."""
SHARE_ZERO = 0.25
"""Share of these that become zero where they may."""
SHARE_COMPARED = 0.3
"""Share of the runs in which a number that is alone is one with which the task compares."""
SHARE_ROW = 0.4
"""Share of the draws in which a mask that hides nothing hides a row, or one that hides all does not hide it."""


def vary(drawn: torch.Tensor, generator: torch.Generator, alone: bool = True) -> torch.Tensor:
    """Other values in place of all: an identity, a range of indices, ones.

    Integers and booleans come in another order, so an index stays an index; where all are equal, as in a mask that
    hides nothing or in lengths that are full, some become others. Finite floating-point values move by up to their root
    mean square (1 if all are zero), within their dtype; non-negative ones stay so, and ascending ones ascend.

    Args:
        drawn: the task's values.
        generator: source of randomness.
        alone: whether an integer or boolean that is alone becomes another.
    """
    if not drawn.is_floating_point():
        mixed = drawn.flatten()[torch.randperm(drawn.numel(), generator=generator)].reshape(drawn.shape)
        if drawn.numel() == 1:
            return another(drawn, generator, alone=True) if alone else drawn
        return _unequal(drawn, generator) if torch.equal(mixed, drawn) else mixed
    values = drawn.double()
    finite = values.isfinite()
    known = values[finite]
    size = float(known.square().mean().sqrt()) if known.numel() else 0.0
    reach = (size or 1.0) * (0.5 + float(torch.rand((), generator=generator)) / 2)  # a mean or norm is not known either
    step = torch.rand(values.shape, generator=generator, dtype=values.dtype) * reach
    if known.numel() and float(known.min()) < 0:
        step = step * 2 - reach
    largest = torch.finfo(drawn.dtype).max
    new = torch.where(finite, (values + step).clamp(-largest, largest), values)
    return (new.sort().values if ascends(drawn) else new).to(drawn.dtype)


def with_others(
    values: torch.Tensor, shown: torch.Tensor, generator: torch.Generator, alone: bool = True
) -> torch.Tensor:
    """The same values but for a fifth, and at least one: of whole numbers what these become where they vary, of equal
    ones smaller ones.

    Args:
        values: floating-point numbers in the shape of `shown`.
        shown: floating-point numbers that are whole or equal, see `variations`.
        generator: source of randomness.
        alone: whether a number that is alone becomes another.
    """
    if not are_whole(shown):
        others = shown * torch.rand(shown.shape, generator=generator)
    elif are_alike(shown):
        others = another(shown.long(), generator, alone=shown.numel() == 1)
    else:
        others = vary(shown.long(), generator)
    return torch.where(_some(torch.ones_like(shown, dtype=torch.bool), SHARE_OTHERS, generator, alone), others, values)


def mix(drawn: torch.Tensor, generator: torch.Generator, alone: bool = True) -> torch.Tensor:
    """Floating-point numbers move, but for some: so a mask of ones hides, and a limit is reached."""
    return with_others(vary(drawn, generator), drawn, generator, alone).to(drawn.dtype)


def with_zeros(drawn: torch.Tensor, generator: torch.Generator, alone: bool = True) -> torch.Tensor:
    """The same, but of what is smaller some are zero, and at least one: a temperature, a scale."""
    mixed = mix(drawn, generator, alone)
    return mixed.masked_fill(_some(mixed.abs() < drawn.abs(), SHARE_ZERO, generator, alone), 0.0)


def _some(where: torch.Tensor, share: float, generator: torch.Generator, alone: bool) -> torch.Tensor:
    """A share of these places, and at least one; a place that is alone if `alone`."""
    if where.numel() == 1:
        return where & alone
    chosen = (where & (torch.rand(where.shape, generator=generator) < share)).contiguous()
    places = where.flatten().nonzero().flatten()
    if len(places) and not bool(chosen.any()):
        chosen.view(-1)[places[int(torch.randint(len(places), (), generator=generator))]] = True
    return chosen


def as_integers(drawn: torch.Tensor, generator: torch.Generator, alone: bool = True) -> torch.Tensor:
    """Whole floating-point numbers vary as integers do."""
    return vary(drawn.long(), generator, alone).to(drawn.dtype)


def with_row(varied: torch.Tensor, shown: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The same values, but where all are shown as 1 or as 0 now and then a whole row of the other number.

    Args:
        varied: what the task's values have become.
        shown: the task's values, of the same shape and dtype.
        generator: source of randomness.
    """
    first = float(shown.flatten()[0])
    if shown.dim() < 2 or shown.numel() == shown.shape[-1] or first not in (0.0, 1.0) or not are_alike(shown):
        return varied
    if float(torch.rand((), generator=generator)) >= SHARE_ROW:
        return varied
    rows = varied.reshape(-1, varied.shape[-1]).clone()
    rows[int(torch.randint(len(rows), (), generator=generator))] = 1 - first
    return rows.reshape(varied.shape)


def part(drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Other ascending integers between the first and the last one: offsets at which parts of other lengths begin."""
    first, last, num_between = int(drawn[0]), int(drawn[-1]), drawn.numel() - 2
    between = torch.randperm(last - first - 1, generator=generator)[:num_between].sort().values
    return torch.cat([drawn[:1], (first + 1 + between).to(drawn.dtype), drawn[-1:]])


def within(drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Other numbers of [0, 1]: levels, shares, probabilities."""
    new = torch.rand(drawn.shape, generator=generator, dtype=torch.float64).to(drawn.dtype)
    return new.sort().values if ascends(drawn) else new


def reorder(drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The same rows in another order: an identity becomes a permutation."""
    return drawn[torch.randperm(drawn.shape[0], generator=generator)]


def count_on(drawn: torch.Tensor, generator: torch.Generator, most: int) -> torch.Tensor:
    """A number from the drawn one, which is alone, to another one: of a later step, a wider limit."""
    number = int(drawn)
    times = (most / number) ** float(torch.rand((), generator=generator))
    return torch.full_like(drawn, min(math.ceil(number * times), most))


def shorten(drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A fifth of equal positive integers become any smaller one, and one of them 1: short lengths."""
    value = int(drawn.flatten()[0])
    new = torch.randint(1, value + 1, drawn.shape, generator=generator).to(drawn.dtype)
    mixed = torch.where(torch.rand(drawn.shape, generator=generator) < SHARE_OTHERS, new, drawn)
    mixed = mixed.contiguous()
    mixed.view(-1)[int(torch.randint(drawn.numel(), (), generator=generator))] = 1
    return mixed


VARIATIONS: dict[Variation, Callable[[torch.Tensor, torch.Generator], torch.Tensor]] = {
    "short": shorten,
    "part": part,
    "within": within,
    "reorder": reorder,
}
OF_ALL: dict[Variation, Callable[[torch.Tensor, torch.Generator, bool], torch.Tensor]] = {
    "zeroed": with_zeros,
    "mixed": mix,
    "others": vary,
    "whole": as_integers,
}
"""Those that a number that is alone may have, too; the last argument says whether it becomes another."""


def variations(drawn: torch.Tensor, reads: bool = False) -> list[Variation]:
    """In which ways an input that the task makes constant may vary, the furthest first.

    Args:
        drawn: the task's values, one or more.
        reads: the task reads values, and what it does hangs on them: of larger ones it might make no end.
    """
    first, alike = float(drawn.flatten()[0]), are_alike(drawn)
    moves: list[Variation] = ["others"]
    if drawn.is_floating_point():
        if not ascends(drawn) and math.isfinite(first):
            whole = are_whole(drawn)
            moves[:0] = ["mixed"] if whole or alike else []
            moves[:0] = ["zeroed"] if alike and first not in (0.0, 1.0) else []
            moves += ["whole"] if whole else []
        if bool(((drawn >= 0) & (drawn <= 1)).all()):
            moves.append("within")
    elif drawn.dtype != torch.bool:
        if drawn.numel() == 1 and first > 0 and not reads:
            moves[:0] = ["either", "more"]
        if drawn.numel() > 1 and alike and first > 1:
            moves[:0] = ["short"]
        if drawn.numel() > 2 and ascends(drawn) and int(drawn[-1] - drawn[0]) >= drawn.numel():
            moves.append("part")
    return moves + (["reorder"] if drawn.dim() and bool((drawn != drawn[:1]).any()) else [])


def are_alike(values: torch.Tensor) -> bool:
    """Whether all are equal."""
    return bool((values == values.flatten()[0]).all())


def are_whole(values: torch.Tensor) -> bool:
    """Whether floating-point numbers are all whole, and float32 has their neighbours: a mask, lengths, labels."""
    return bool(((values == values.round()) & (values.abs() < NO_FLOAT)).all())


def ascends(values: torch.Tensor) -> bool:
    """Whether numbers are in strictly ascending order, on which a search among them relies."""
    return values.dim() == 1 and values.numel() > 1 and bool((values[1:] > values[:-1]).all())


def _unequal(drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A fifth of equal integers or booleans becomes another."""
    return torch.where(torch.rand(drawn.shape, generator=generator) < SHARE_OTHERS, another(drawn, generator), drawn)


def another(drawn: torch.Tensor, generator: torch.Generator, alone: bool = False) -> torch.Tensor:
    """In place of a number that all are, numbers from half of it on, or from one on if it is `alone`; in place of a
    boolean, of 0 and of 1 the other."""
    value = int(drawn.flatten()[0])
    if drawn.dtype == torch.bool or value in (0, 1):
        return torch.full_like(drawn, 1 - value)
    if alone and value > 0:
        return torch.full_like(drawn, int(value ** float(torch.rand((), generator=generator))))
    low, high = (value // 2, value) if value > 0 else (value + 1, value // 2 + 1)
    return torch.randint(low, max(high, low + 1), drawn.shape, generator=generator).to(drawn.dtype)
