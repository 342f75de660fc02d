"""How far rounding moves outputs, and over which jumps it carries them."""

from __future__ import annotations

import torch

TIMES = 4.0
"""Jumps are looked for as far as so many times what rounding moves."""
MEDIAN_OF = 20_000
"""Elements of a large output, evenly spread, that stand for all in a median."""


def distance(exact: torch.Tensor, rounded: torch.Tensor) -> torch.Tensor:
    """Distance of a rounded output to the exact one; for booleans, whether it differs."""
    if exact.dtype == torch.bool:
        return rounded != exact
    wide = torch.float64 if exact.is_floating_point() else torch.int64
    return (rounded.to(wide) - exact.to(wide)).abs()


def typical_at_least(move: torch.Tensor, typical: torch.Tensor | None = None) -> torch.Tensor:
    """Distances, of which one sample may be small by luck, with one and a half times their median as the least.

    Args:
        move: distances; those of integers and booleans stay.
        typical: those of which the median is taken; None: all.
    """
    if not move.is_floating_point():
        return move
    move = move.nan_to_num(0.0, 0.0, 0.0)
    sample = move.flatten() if typical is None else move[typical]
    sample = sample[:: 1 + sample.numel() // MEDIAN_OF]
    present = sample[sample > 0]
    return move.clamp_min(1.5 * float(present.median())) if present.numel() else move


def find_jumps(move: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    """How far an output is carried where rounding, or a few times as much, carries it over a jump; zero elsewhere.

    Where nothing jumps, errors that are larger or of the other sign move an output in proportion.

    Args:
        move: by rounding.
        up: by `TIMES` as much, with the same signs.
        down: by as much with the opposite signs.
    """
    far = torch.maximum(move, torch.maximum(up, down))
    if not move.is_floating_point():
        return far
    jumps = torch.maximum((up - TIMES * move).abs(), (down - TIMES * move).abs()) > TIMES / 2 * move
    return far.nan_to_num(0.0, 0.0, 0.0).where(jumps, 0.0)


def with_jumps(move: torch.Tensor, far: torch.Tensor, factor: float) -> torch.Tensor:
    """Distances, with the whole jump where there is one.

    Args:
        move: by rounding.
        far: see `find_jumps`.
        factor: by which jumps of floating-point outputs may be larger.
    """
    if not move.is_floating_point():
        return torch.maximum(move, far)
    return torch.maximum(typical_at_least(move, far == 0), factor * far)
