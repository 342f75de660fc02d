"""Inputs that a task makes constant, with few other values than it shows, most of them near the end.

Who looks at a part of such an input, and takes the rest for what the task shows, is right where all of it varies.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kernelrl.executor.contest.constants import (
    SHARE_ZERO,
    Variation,
    another,
    are_alike,
    are_whole,
    ascends,
    part,
    within,
)

MOST = 3
"""Number of places that differ, at most; a whole row counts as one."""
LATE = 0.8
"""Share of the draws whose places are all in the last quarter. In the others they are anywhere."""


def vary_few(way: Variation, drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The task's values, but for one to three places.

    Args:
        way: how the input varies where all of it does; what is kept then, such as an order, is kept here too.
        drawn: the task's values, two or more.
        generator: source of randomness.
    """
    new = drawn.clone(memory_format=torch.contiguous_format)
    count = 1 + int(torch.randint(MOST, (), generator=generator))
    if way == "reorder":
        return _swap(new, count, generator)
    if way == "part":
        return _move_offset(new, generator)
    flat = new.view(-1)
    if drawn.is_floating_point():
        crosses = way == "whole" or (way in ("mixed", "zeroed") and float(torch.rand((), generator=generator)) < 0.5)
        return _cross(way, new, count, generator) if crosses else _move(way, new, count, generator)
    if not are_alike(flat):
        _swap(flat, count, generator)
        return new
    for place in _places(flat.numel(), count, generator):
        few = flat[place : place + 1]
        shorter = torch.randint(1, max(int(few), 2), (1,), generator=generator)
        few.copy_(shorter if way == "short" else another(few, generator))
    return new


def _places(size: int, count: int, generator: torch.Generator) -> Iterator[int]:
    late = float(torch.rand((), generator=generator)) < LATE
    first = size * 3 // 4 if late else 0
    for _ in range(count):
        yield int(torch.randint(first, size, (), generator=generator))


def _swap(values: torch.Tensor, count: int, generator: torch.Generator) -> torch.Tensor:
    """Swap elements, or rows, with others that are not equal to them, in the last quarter if such are there."""
    for place in _places(len(values), count, generator):
        others = (values != values[place]).reshape(len(values), -1).any(dim=1).nonzero().flatten()
        if not len(others):
            continue
        late = others[others >= len(values) * 3 // 4]
        chosen = late if len(late) else others
        other = int(chosen[int(torch.randint(len(chosen), (), generator=generator))])
        values[[place, other]] = values[[other, place]]
    return values


def _move_offset(offsets: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """One part begins elsewhere between its neighbours; all do, where none could alone."""
    movable = ((offsets[2:] - offsets[:-2]) > 2).nonzero().flatten() + 1
    if not len(movable):
        return part(offsets, generator)
    (which,) = _places(len(movable), 1, generator)
    place = int(movable[which])
    low, old, high = (int(offsets[place + step]) for step in (-1, 0, 1))
    new = int(torch.randint(low + 1, high - 1, (), generator=generator))
    offsets[place] = new + (new >= old)
    return offsets


def _cross(way: Variation, values: torch.Tensor, count: int, generator: torch.Generator) -> torch.Tensor:
    """What `constants.with_others` and `with_zeros` make of many, of some."""
    if are_whole(values):
        new = vary_few("others", values.long(), generator).to(values.dtype)
    else:
        new, flat = values, values.view(-1)
        for place in _places(flat.numel(), count, generator):
            flat[place] *= float(torch.rand((), generator=generator))
    if way == "zeroed" and float(torch.rand((), generator=generator)) < SHARE_ZERO:
        new.view(-1)[next(_places(new.numel(), 1, generator))] = 0.0
    return new


def _move(way: Variation, values: torch.Tensor, count: int, generator: torch.Generator) -> torch.Tensor:
    """Some finite numbers, or a row of them, become others by at least half of the root mean square."""
    flat = values.view(-1)
    finite = flat.isfinite().nonzero().flatten()
    if not len(finite):
        return values
    known = flat[finite].double()
    size = float(known.square().mean().sqrt()) or 1.0
    signed = bool((known < 0).any())
    in_order = ascends(values)
    rows = values.dim() > 1 and float(torch.rand((), generator=generator)) < 0.5
    width = values.shape[-1] if rows else 1
    for place in _places(len(finite), count, generator):
        first = int(finite[place]) // width * width
        old = flat[first : first + width].double()
        level = torch.rand(old.shape, generator=generator, dtype=torch.float64)
        step = size * (0.5 + level / 2)
        if signed:
            step = torch.where(torch.rand(old.shape, generator=generator) < 0.5, step, -step)
        new = old + step
        if in_order:
            end = old + size if way != "within" else torch.ones_like(old)
            following = flat[first + 1 : first + 2].double() if first + 1 < len(flat) else end
            new = old + (following - old) * (0.25 + level / 2)
        elif way == "within":
            new = within(old, generator)
        flat[first : first + width] = new.to(flat.dtype)
    return values
