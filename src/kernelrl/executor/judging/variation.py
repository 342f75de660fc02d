"""Which of a task's parameters and buffers get other values, and which values.

The values stand for those of a trained network: what a constructor leaves between parameters (copies, zeros, a norm)
does not hold between them, and what it leaves tiny has a size that matters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from kernelrl.executor import wire
from kernelrl.executor.contest import distributions

SMALL = 0.5
"""Largest value that takes the place of a zero."""
TINY = 0.1
"""Constants below it become as large as that, or up to ten times larger."""
TYPICAL = 0.3
"""Least root mean square of a random vector."""
FAR, FARTHEST = 4.0, 10.0
"""Magnitudes of the few elements of a vector that open or close a gate."""
SHARE_FAR = 0.2
SHARE_CLAMPED = 0.125
FEWEST = 16
"""Vectors of fewer elements have none of those."""


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
    size, floating = math.prod(tensor["shape"]), wire.DTYPES[tensor["dtype"]].is_floating_point
    if tensor["name"] is None or tensor["shared"] or not size:
        return False
    equal = tensor["origin"] == "constant" or (tensor["origin"] == "literal" and floating and size > 1)
    if tensor["kind"] == "buffer":
        return equal and (floating or size > 1)
    if drawn or equal:
        return floating and (drawn or not tensor["fixed"])
    return floating and not tensor["frozen"]


def vary(
    report: dict[str, Any],
    read: Callable[[dict[str, Any]], torch.Tensor],
    numbers: Iterable[int],
    drawn: frozenset[int],
    seed: int,
    enlarged: bool,
    clamped: Mapping[str, Sequence[float]] | None = None,
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
    """
    given = {}
    for number in numbers:
        tensor = report["tensors"][number]
        values = read(tensor)
        generator = torch.Generator().manual_seed(seed ^ number)
        if not values.is_floating_point():
            given[number] = distributions.vary(values, generator)
        elif bool(values.isfinite().all()):
            wide = values if values.dtype == torch.float64 else values.float()
            coins = torch.rand(wide.shape, generator=generator, dtype=wide.dtype)
            if number in drawn:
                new = _vary_drawn(wide, coins, enlarged)
            elif tensor["origin"] in ("constant", "literal"):
                new = _vary_constant(wide, coins, enlarged and tensor["kind"] == "parameter")
            else:
                new = wide + (coins - 0.5).mul_(0.2 * _size(wide))
            if enlarged and _may_be_bias(tensor, wide, number in drawn):
                new = _with_far_ones(new, generator)
            if clamped and tensor["name"] in clamped:
                new = _beyond_limits(new, clamped[tensor["name"]], generator)
            given[number] = new.to(values.dtype)
    return given


def _beyond_limits(values: torch.Tensor, limits: Sequence[float], generator: torch.Generator) -> torch.Tensor:
    """Some values, or the only one, beyond a limit; two to four times as large where none is known."""
    chosen, level, which = torch.rand((3, *values.shape), generator=generator, dtype=values.dtype)
    far = values * (2 + 2 * level)
    if limits:
        highest = which < 0.5 if len(limits) > 1 else values <= limits[0]
        low, high = min(limits), max(limits)
        far = torch.where(highest, high + level * (1 + abs(high)), low - level * (1 + abs(low)))
    return torch.where(chosen < SHARE_CLAMPED, far, values) if values.numel() > 1 else far


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
