"""Values that are as the task draws them but for something rare, and values among which one element decides.

Who looks at some numbers of an input first, and leaves out what typical numbers never need, does not see where these
differ. Each function takes finite values and returns others of the same shape and dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

FACTORS = (16.0, 128.0, 1024.0, 8192.0)
"""By how much a spike is larger than the root mean square."""
FEW = 4
"""Most elements that are others at a time, where it is not one in so many rows."""
NEAR = 1e-3
"""Relative distance of a row from the one that it is nearly equal to."""
SMALL = 1e-4


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


def rows(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """One row, or one in eight, is much larger or smaller than the others, even, or (nearly) that of another place."""
    table = _as_rows(_flat(values), values)
    order = torch.randperm(len(table), generator=generator)
    num_chosen = max(1, len(table) // 8) if coin(generator) else 1
    chosen, others = order[:num_chosen], order[-num_chosen:]
    noise = 1 + NEAR * torch.randn(table[others].shape, generator=generator, dtype=table.dtype)
    kinds: list[Callable[[], torch.Tensor]] = [
        lambda: table[chosen] * 100.0,
        lambda: table[chosen] / 100.0,
        lambda: table[chosen] * 0.0,
        lambda: table[chosen, :1].expand(-1, table.shape[1]),
        lambda: table[others],
        lambda: table[others] * noise,
    ]
    table[chosen] = kinds[_below(len(kinds), generator)]().clone()
    return table.reshape(-1)[: values.numel()].reshape(values.shape)


def grains(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A few elements are zero, equal to others or small, and somewhere a run has one sign or one value."""
    new = _flat(values)
    size = len(new)
    some, others = (torch.randint(size, (FEW,), generator=generator) for _ in range(2))
    new[some[:2]] *= SMALL
    new[others] = new[some.flip(0)]
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


def single(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """All are equal but one."""
    flat = values.flatten()
    new = torch.full_like(flat, flat[_below(len(flat), generator)].item())
    new[_below(len(flat), generator)] = flat[_below(len(flat), generator)]
    return new.reshape(values.shape)


def ordered(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Each row ascends, but for one pair of neighbours in one row, or in half of them."""
    if not values.dim() or values.shape[-1] < 2:
        return values
    table = values.sort(dim=-1).values.reshape(-1, values.shape[-1]).clone()
    chosen = torch.randperm(len(table), generator=generator)[: 1 if coin(generator) else math.ceil(len(table) / 2)]
    at = torch.randint(values.shape[-1] - 1, chosen.shape, generator=generator)
    table[chosen, at], table[chosen, at + 1] = table[chosen, at + 1], table[chosen, at]
    return table.reshape(values.shape)


def integer_rows(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """One row of integers is even, or that of another place."""
    table = _as_rows(_flat(values), values)
    first, second = (_below(len(table), generator) for _ in range(2))
    table[first] = table[first, 0] if coin(generator) else table[second]
    return table.reshape(-1)[: values.numel()].reshape(values.shape)


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


def some_places(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Any one place, or one in every fourth row or so, in the flattened values."""
    num_rows = values.numel() // max(1, values.shape[-1] if values.dim() else 1)
    count = 1 if coin(generator) else max(1, num_rows // 4)
    return torch.randint(values.numel(), (count,), generator=generator)


def _flat(values: torch.Tensor) -> torch.Tensor:
    return values.clone(memory_format=torch.contiguous_format).reshape(-1)


def _as_rows(flat: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """The same values in rows, along the last of several dimensions; those of one dimension in some eight parts."""
    if values.dim() > 1 and values.shape[-1] < values.numel():
        return flat.reshape(-1, values.shape[-1])
    width = math.ceil(len(flat) / 8)
    padding = flat[: -len(flat) % width]
    return torch.cat([flat, padding]).reshape(-1, width)


def _below(end: int, generator: torch.Generator) -> int:
    return int(torch.randint(end, (), generator=generator))


def _between(low: float, high: float, generator: torch.Generator) -> float:
    return low + (high - low) * float(torch.rand((), generator=generator))


def coin(generator: torch.Generator) -> bool:
    """True in half of all cases."""
    return _below(2, generator) == 0
