"""Values that are as the task draws them but for something rare, and values among which one element decides.

Who looks at some numbers of an input first, and leaves out what typical numbers never need, does not see where these
differ. Each function takes finite values and returns others of the same shape and dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch

FACTORS = (16.0, 128.0, 1024.0, 8192.0)
"""By how much a spike is larger than the root mean square."""
FEW = 4
"""Most elements that are others at a time, where it is not one in so many rows."""
SCALES = (100.0, 1e-2, 1e-7, 1e-12)
NEAR = 1e-3
"""Relative distance of a row from the one that it is nearly equal to."""
NEARER = 1e-11
"""The same of numbers that have the room."""
UNITS, UNITS_OF_DOUBLE = 7, 27
"""Powers of two by which numbers are apart that are nearly equal, in units of the last place; of doubles, which float32
does not tell apart, too."""
SMALL = 1e-4
TILE_ONE_IN = 4
"""Share of the draws of rows in which there is a tile instead of them."""
LONG = 2048
"""Longer rows of floating-point numbers have no order: products and norms err by more on those than is known."""


def spike(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """One element, or one in every few rows, is far larger than all others."""
    new = _flat(values)
    size = float(values.norm(dtype=torch.float32 if values.dtype != torch.float64 else None)) / len(new) ** 0.5 or 1.0
    places = some_places(values, generator)
    signs = torch.randint(0, 2, places.shape, generator=generator).to(new.dtype) * 2 - 1
    new[places] = signs * size * FACTORS[_below(len(FACTORS), generator)] * _between(1.0, 2.0, generator)
    return new.reshape(values.shape)


def numbers(values: torch.Tensor, some: Sequence[float], generator: torch.Generator) -> torch.Tensor:
    """One element, or one in every few rows, is one of some numbers."""
    new = _flat(values)
    places = some_places(values, generator)
    which = torch.randint(len(some), places.shape, generator=generator)
    new[places] = torch.tensor(some, dtype=values.dtype)[which]
    return new.reshape(values.shape)


def not_finite(values: torch.Tensor, drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """What is another value than the drawn one is, in three of four cases, NaN or infinite."""
    number = (math.nan, math.inf, -math.inf, None)[_below(4, generator)]
    return values if number is None else values.masked_fill(values != drawn, number)


Kind = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""What becomes of some rows, given as many others."""
Number = Callable[[torch.Tensor], torch.Tensor]
"""One number of each row."""


def rows(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Rows (see `_as_rows`) are of another size, zero, nearly equal to others, of numbers near one, so that their
    product lasts, or have a pattern (see `_patterns`). Or a tile is zero.
    """

    def scaled(some: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        return some * SCALES[_below(len(SCALES), generator)]

    def zero(some: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        return some * 0.0

    def near(some: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        distance = NEARER if others.dtype == torch.float64 and coin(generator) else NEAR
        return others * (1 + distance * torch.randn(others.shape, generator=generator, dtype=others.dtype))

    def near_one(some: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        spread: torch.Tensor = torch.randn(some.shape, generator=generator, dtype=some.dtype) / some.shape[1] ** 0.5
        return (1 + spread) * torch.ones_like(some).copysign(some)

    def kinds_of(length: int, several: bool) -> list[Kind]:
        in_order, *patterns = _patterns(generator, several)
        kinds = [scaled, zero, near, near_one, *patterns]
        return kinds if length > LONG else [*kinds, in_order]

    if values.dim() > 1 and _below(TILE_ONE_IN, generator) == 0:
        return with_tile(values, generator)
    return _with_rows(values, kinds_of, generator)


def integer_rows(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Rows of integers have a pattern, or a tile is zero."""
    if values.dim() > 1 and _below(TILE_ONE_IN, generator) == 0:
        return with_tile(values, generator)
    return _with_rows(values, lambda length, several: _patterns(generator, several), generator)


def rows_of(
    values: torch.Tensor, numbers: Sequence[int], others: Sequence[int], generator: torch.Generator
) -> torch.Tensor:
    """Some rows hold one of some integers alone, or all but one element do.

    Args:
        values: of any shape.
        numbers: those that matter; may be none.
        others: come as well, less often.
        generator: source of randomness.
    """
    new = values
    for _ in range(2):  # along one dimension, and maybe another
        table, restore = _as_rows(new, generator)
        order = torch.randperm(len(table), generator=generator)
        for index, row in enumerate(order[: max(1, min(FEW, len(table) // FEW))].tolist()):
            some = numbers if numbers and (index == 0 or coin(generator)) else others
            kept = table[row, _below(table.shape[1], generator)].clone()
            table[row] = some[_below(len(some), generator)]
            if index % 2:
                table[row, _below(table.shape[1], generator)] = kept
        new = restore(table)
    return new


def with_tile(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """In the last two dimensions a quarter is zero, or next to it, of all matrices or of one, with all its tiles."""
    if values.dim() < 2 or not values.numel():
        return values
    new = values.clone(memory_format=torch.contiguous_format)
    matrices = new.view(-1, *values.shape[-2:])
    if coin(generator):
        matrices = matrices[_below(len(matrices), generator)][None]
    for dim in (1, 2):
        half = math.ceil(matrices.shape[dim] / 2)
        matrices = matrices.narrow(dim, 0 if coin(generator) else matrices.shape[dim] - half, half)
    matrices.fill_(_zero(values.reshape(1, -1)).item())
    return new


def _with_rows(
    values: torch.Tensor, kinds_of: Callable[[int, bool], list[Kind]], generator: torch.Generator
) -> torch.Tensor:
    """One row along a dimension is of one kind, or one in eight are, or, in two of three cases, several are each of
    another kind.

    Args:
        values: of any shape.
        kinds_of: what may become of rows of a length, where several are of another kind or not.
        generator: source of randomness.
    """
    table, restore = _as_rows(values, generator)
    several = _below(3, generator) > 0
    kinds = kinds_of(table.shape[1], several)
    order = torch.randperm(len(table), generator=generator)
    if several:
        numbers = torch.randperm(len(kinds), generator=generator)[: max(1, len(table) // FEW)].tolist()
        count = 1
    else:
        numbers = [_below(len(kinds), generator)]
        count = max(1, len(table) // 8) if coin(generator) else 1
    for number, some, others in zip(
        numbers, torch.split(order, count), torch.split(order.flip(0), count), strict=False
    ):
        table[some] = kinds[number](table[some], table[others]).clone()
    return restore(table)


def _patterns(generator: torch.Generator, all_forms: bool) -> list[Kind]:
    """Rows that random draws never have: in an order, of two parts, equal to another one, even, even but for one.

    Args:
        generator: source of randomness.
        all_forms: of those that are even, all forms; otherwise one of each.
    """

    def in_order(some: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        return _in_order(some, generator)

    def parts(some: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        ends = [_least(some), _most(some)]
        before, after = ends if coin(generator) else reversed(ends)
        return torch.where(torch.arange(some.shape[1]) < _below(some.shape[1] + 1, generator), before, after)

    def equal(some: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        return others

    def even(number: Number, some: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        return number(some).expand_as(some)

    def even_but_one(number: Number, some: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        new, other = even(number, some, others).clone(), _most if coin(generator) else _least
        new[:, _below(some.shape[1], generator)] = other(some)[:, 0]
        return new

    numbers: list[Number] = [_least, _most, _first, _zero]
    chosen = numbers if all_forms else [numbers[_below(len(numbers), generator)]]
    return [in_order, parts, equal, *(partial(form, number) for form in (even, even_but_one) for number in chosen)]


def _least(some: torch.Tensor) -> torch.Tensor:
    return some.amin(dim=1, keepdim=True)


def _most(some: torch.Tensor) -> torch.Tensor:
    return some.amax(dim=1, keepdim=True)


def _first(some: torch.Tensor) -> torch.Tensor:
    return some[:, :1]


def _zero(some: torch.Tensor) -> torch.Tensor:
    """What of the range of a row is next to zero."""
    return torch.zeros_like(some[:, :1]).clamp(_least(some), _most(some))


def _in_order(some: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Of each row alone: it ascends, descends, rises and then falls, or goes to and fro."""
    length = some.shape[-1]
    ascending, half = torch.arange(length), (length + 1) // 2
    to_and_fro = torch.empty_like(ascending)
    to_and_fro[::2], to_and_fro[1::2] = ascending[:half], ascending[half:]
    rises_and_falls = torch.cat([ascending[::2], ascending[1::2].flip(0)])
    orders = torch.stack([ascending, ascending.flip(0), rises_and_falls, to_and_fro])
    chosen = torch.tensor([0, 0, 0, 1, 1, 1, 2, 3])[torch.randint(8, (len(some),), generator=generator)]
    if some.dtype == torch.bfloat16:  # which NumPy, whose sort is several times as fast, does not have
        return some.sort().values.gather(-1, orders[chosen])
    return torch.from_numpy(np.sort(some.numpy())).gather(-1, orders[chosen])


def grains(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A few elements are zero, equal to others, or to their neighbours or to an extreme but for the last places, or
    small, and somewhere a run has one sign or one value; maybe a tile is zero."""
    new = _flat(with_tile(values, generator) if coin(generator) else values)
    size = len(new)
    some, others = (torch.randint(size, (FEW,), generator=generator) for _ in range(2))
    new[some[:2]] *= SMALL
    new[others] = new[some.flip(0)]
    if size > 1:
        first = torch.randint(size - 1, (FEW // 2,), generator=generator)
        units = 2 ** _below(UNITS_OF_DOUBLE if values.dtype == torch.float64 else UNITS, generator)
        new[first + 1] = new[first] * (1 + torch.finfo(values.dtype).eps * units)
        if coin(generator):
            _double_an_extreme(new.view(values.shape), torch.finfo(values.dtype).eps * units, generator)
    start = _below(size, generator)
    length = max(1, (values.shape[-1] if values.dim() else 1) // 4)
    length = 1 + _below(2 * length, generator)
    run = new[start : start + length]
    run.copy_(run.abs() if coin(generator) else -run.abs())
    if coin(generator):
        run.fill_(float(run[0]))
    new[some[-1:]] = 0.0
    new = new.reshape(values.shape)
    if values.dim() > 1 and values.shape[-1] == values.shape[-2] and coin(generator):
        pivot = _below(values.shape[-1], generator)
        new[..., pivot, pivot] = 0.0
    return new


def _double_an_extreme(values: torch.Tensor, apart: float, generator: torch.Generator) -> None:
    """Beside the largest or the smallest of a line along some dimension comes another one, which is as large but for a
    small share."""
    dim = _below(values.dim(), generator) if values.dim() else 0
    line = values[tuple(slice(None) if each == dim else _below(n, generator) for each, n in enumerate(values.shape))]
    if line.numel() > 1:
        extreme = line.max() if coin(generator) else line.min()
        line[_below(len(line), generator)] = extreme * (1 + (apart if coin(generator) else -apart))


def single(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """All are equal but one."""
    flat = values.flatten()
    new = torch.full_like(flat, flat[_below(len(flat), generator)].item())
    new[_below(len(flat), generator)] = flat[_below(len(flat), generator)]
    return new.reshape(values.shape)


def ordered(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Each row along some dimension is in an order, but for one pair of neighbours in one row, or in half of them."""
    table, restore = _as_rows(values, generator)
    if table.shape[1] < 2:
        return values
    table = _in_order(table, generator)
    chosen = torch.randperm(len(table), generator=generator)[: 1 if coin(generator) else math.ceil(len(table) / 2)]
    at = torch.randint(table.shape[1] - 1, chosen.shape, generator=generator)
    table[chosen, at], table[chosen, at + 1] = table[chosen, at + 1], table[chosen, at]
    return restore(table)


def shares(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Of three integers or more one is absent, or in half of the places."""
    flat = _flat(values)
    if int(flat.max()) - int(flat.min()) < 2:
        return values
    one, other = (flat[_below(len(flat), generator)].item() for _ in range(2))
    if coin(generator):
        return torch.where(values == one, other, values)
    return torch.where(torch.rand(values.shape, generator=generator) < 0.5, one, values)


def integer_run(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Somewhere a run of integers is even."""
    new = _flat(values)
    start, length = _below(len(new), generator), max(1, (values.shape[-1] if values.dim() else 1) // 2)
    new[start : start + 1 + _below(length, generator)] = new[start].clone()
    return new.reshape(values.shape)


def few_places(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Whether an element is one of one or two, at any place."""
    chosen = torch.zeros(values.numel(), dtype=torch.bool)
    chosen[torch.randint(values.numel(), (1 + _below(2, generator),), generator=generator)] = True
    return chosen.reshape(values.shape)


def stretches(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Whether an element is in one of up to four rows along any dimension, or in the part of it that is chosen: all of
    one, all but one element, the beginning, and what lies between two places."""
    table, restore = _as_rows(torch.zeros(values.shape, dtype=torch.bool), generator)
    length = table.shape[1]
    place, first = _below(length, generator), _below(length, generator)
    last = first + 1 + _below(length - first, generator)
    index = torch.arange(length)
    chosen = torch.stack([index >= 0, index != place, index < last, (index >= first) & (index < last)])
    kinds = torch.randperm(len(chosen), generator=generator)[: max(1, len(table) // FEW)]
    table[torch.randperm(len(table), generator=generator)[: len(kinds)]] = chosen[kinds]
    return restore(table)


def some_places(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Any one place, or one in every fourth row or so, in the flattened values."""
    num_rows = values.numel() // max(1, values.shape[-1] if values.dim() else 1)
    count = 1 if coin(generator) else max(1, num_rows // 4)
    places: torch.Tensor = torch.unique(torch.randint(values.numel(), (count,), generator=generator))
    return places


def _flat(values: torch.Tensor) -> torch.Tensor:
    return values.clone(memory_format=torch.contiguous_format).reshape(-1)


def _as_rows(
    values: torch.Tensor, generator: torch.Generator
) -> tuple[torch.Tensor, Callable[[torch.Tensor], torch.Tensor]]:
    """A copy of the values in rows along a dimension, half of the time the last, and what undoes that.

    Those of one dimension are one row, or some eight, and what is left over stays. Along another than the last of three
    dimensions and more, a row is half of the time all that one index holds (a channel, a sample).
    """
    if values.dim() < 2:
        flat = _flat(values)
        width = len(flat) if coin(generator) else math.ceil(len(flat) / 8)
        rest = flat[len(flat) // width * width :]
        table = flat[: len(flat) - len(rest)].reshape(-1, width)
        return table, lambda new: torch.cat([new.reshape(-1), rest]).reshape(values.shape)
    dim = -1 if coin(generator) else _below(values.dim() - 1, generator)
    to, form = -1, (-1, values.shape[dim])
    if values.dim() > 2 and dim != -1 and coin(generator):
        to, form = 0, (values.shape[dim], -1)
    moved = values.movedim(dim, to)
    return moved.reshape(form).clone(), lambda new: new.reshape(moved.shape).movedim(to, dim).contiguous()


def _below(end: int, generator: torch.Generator) -> int:
    return int(torch.randint(end, (), generator=generator))


def _between(low: float, high: float, generator: torch.Generator) -> float:
    return low + (high - low) * float(torch.rand((), generator=generator))


def coin(generator: torch.Generator) -> bool:
    """True in half of all cases."""
    return _below(2, generator) == 0
