"""Outputs that a task leaves in any order (`topk(sorted=False)`), put in one order to be compared."""

from __future__ import annotations

import torch


def in_order(source: torch.Tensor, named: torch.Tensor, dim: int, outputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Outputs, those of the shape of the indices in the order of the values that these name, and of the indices.

    Args:
        source: the values from which was chosen (…, number of values), along the last dimension.
        named: the indices of those that were chosen.
        dim: the dimension of the indices along which they were.
        outputs: stay as they are where the indices name no values.
    """
    found = named.long().movedim(dim, -1)
    if not bool(((found >= 0) & (found < source.shape[-1])).all()):
        return outputs
    places = found.argsort(dim=-1)
    values = source.gather(-1, found.gather(-1, places))
    places = places.gather(-1, values.argsort(dim=-1, stable=True))

    def arranged(output: torch.Tensor) -> torch.Tensor:
        return output.movedim(dim, -1).gather(-1, places).movedim(-1, dim).contiguous()

    return [arranged(output) if output.shape == named.shape else output for output in outputs]
