"""What a call of the reference does to its inputs that no candidate could be held to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import torch


def leaves_behind(args: Any, given: Any, outputs: Any) -> bool:
    """Whether lists and dictionaries among the arguments hold something that they were not given, nor `outputs` hold.

    Args:
        args: as the call has left them.
        given: the same as they were before.
        outputs: of the call.
    """
    return bool(Counter(_leaves(args)) - Counter(_leaves(given)) - Counter(_leaves(outputs)))


def _leaves(tree: Any) -> Iterator[object]:
    if isinstance(tree, list | tuple):
        for item in tree:
            yield from _leaves(item)
    elif isinstance(tree, dict):
        for item in tree.values():
            yield from _leaves(item)
    else:
        yield id(tree) if isinstance(tree, torch.Tensor) else repr(tree)


def share_elements(tensors: Sequence[torch.Tensor], number: int) -> bool:
    """Whether another one of these tensors has an element where that of this number has one."""
    return any(_overlap(tensors[number], other) for place, other in enumerate(tensors) if place != number)


def _overlap(first: torch.Tensor, second: torch.Tensor) -> bool:
    memory = first.untyped_storage()
    if memory.data_ptr() != second.untyped_storage().data_ptr() or not (first.numel() and second.numel()):
        return False
    if first.itemsize != second.itemsize:
        return True
    places = torch.arange(memory.nbytes() // first.itemsize)
    in_first, in_second = (
        places.as_strided(each.shape, each.stride(), each.storage_offset()) for each in (first, second)
    )
    return bool(torch.isin(in_first, in_second).any())
