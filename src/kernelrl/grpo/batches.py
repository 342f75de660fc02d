"""Groups of rows taken out of a batch of TRL's trainer, and put into another one.

A batch is a dict of tensors. Those with one entry per row are padded to the width of the batch: prompts (P) on the
left, all else (C) on the right. Legend: B rows, G rows of a group.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

Batch = dict[str, Tensor]
LEFT = ("prompt_ids", "prompt_mask")
"""Padded on the left."""


def take(batch: Batch, groups: Sequence[int], size: int) -> Batch:
    """The rows of some groups of G = `size` rows."""
    rows = torch.tensor([group * size + row for group in groups for row in range(size)], dtype=torch.long)
    num = len(batch["completion_ids"])
    return {
        name: values[rows.to(values.device)] for name, values in batch.items() if values.dim() and len(values) == num
    }


def join(parts: Sequence[Batch]) -> Batch:
    """One batch of the rows of all parts, which hold the same tensors."""
    return {name: _stack([part[name] for part in parts], name in LEFT) for name in parts[0]}


def replace(batch: Batch, groups: Sequence[int], others: Batch, size: int) -> Batch:
    """The batch with the rows of `others`, whole groups, in place of these groups.

    `num_items_in_batch` is left as it was: it is of all ranks.
    """
    num = len(batch["completion_ids"])
    whole = take(batch, range(num // size), size)
    both = join([whole, {name: others[name] for name in whole}])
    order = torch.arange(num)
    for number, group in enumerate(groups):
        order[group * size : (group + 1) * size] = num + number * size + torch.arange(size)
    return batch | {name: values[order.to(values.device)] for name, values in both.items()}


def loss_mask(batch: Batch) -> Tensor:
    """(B, C) 1 for the tokens that count in the loss."""
    mask = batch["completion_mask"]
    return mask * batch["tool_mask"] if "tool_mask" in batch else mask


def _stack(parts: Sequence[Tensor], left: bool) -> Tensor:
    if parts[0].dim() == 1:
        return torch.cat(list(parts))
    width = max(part.shape[1] for part in parts)
    padded = [
        torch.nn.functional.pad(part, (width - part.shape[1], 0) if left else (0, width - part.shape[1]))
        for part in parts
    ]
    return torch.cat(padded)
