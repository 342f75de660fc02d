"""Reductions and scans by a kernel's own function, many elements at a time.

Triton's interpreter calls the function once for each element, on numbers, where a GPU combines whole blocks in some
order of its own: any is right, since the function must be associative. Here neighbours are combined, then what came of
them, and so on; the function is called as often as the length can be halved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from triton.runtime.interpreter import ReduceOps, ScanOps

Parts = list[np.ndarray]
"""Arrays of one shape that are reduced, or scanned, together."""
Combine = Callable[[Parts, Parts], Parts]


def install() -> None:
    """From now on the interpreter reduces and scans so."""
    ReduceOps.generic_reduce, ScanOps.generic_scan = _reduce, _scan


def combining(function: Any, make: Callable[[np.ndarray, Any], Any], dtypes: Sequence[Any]) -> Combine:
    """What a kernel's function does with arrays.

    Args:
        function: takes the tensors of the first parts, then those of the second, and gives as many.
        make: a tensor of an array and its dtype.
        dtypes: of the parts.
    """

    def combine(first: Parts, second: Parts) -> Parts:
        given = [make(part, dtype) for parts in (first, second) for part, dtype in zip(parts, dtypes, strict=True)]
        made = function(*given)
        made = made if isinstance(made, tuple) else (made,)
        return [
            np.broadcast_to(each.handle.data, np.broadcast_shapes(each.handle.data.shape, part.shape))
            for each, part in zip(made, first, strict=True)
        ]

    return combine


def reduced(parts: Parts, axis: int, combine: Combine) -> Parts:
    """Arrays whose axis has become one element."""
    while (length := parts[0].shape[axis]) > 1:
        pairs = length // 2 * 2
        made = combine(*([_along(part, axis, slice(start, pairs, 2)) for part in parts] for start in (0, 1)))
        left_over = [_along(part, axis, slice(pairs, None)) for part in parts]
        parts = [_joined(*each, axis) for each in zip(made, left_over, strict=True)]
    return parts


def scanned(parts: Parts, axis: int, combine: Combine) -> Parts:
    """Arrays that hold, for each place along the axis, what comes of all up to it (Hillis and Steele, "Data parallel
    algorithms", 1986)."""
    distance = 1
    while distance < parts[0].shape[axis]:
        made = combine([np.roll(part, distance, axis) for part in parts], parts)
        first, others = slice(None, distance), slice(distance, None)
        pairs = zip(parts, made, strict=True)
        parts = [_joined(_along(old, axis, first), _along(new, axis, others), axis) for old, new in pairs]
        distance *= 2
    return parts


def _along(array: np.ndarray, axis: int, which: slice) -> np.ndarray:
    return array[(slice(None),) * axis + (which,)]


def _joined(first: np.ndarray, second: np.ndarray, axis: int) -> np.ndarray:
    """One behind the other; a batch's first axis may be of length 1 in either (see `programs`)."""
    shapes = ((*each.shape[:axis], 1, *each.shape[axis + 1 :]) for each in (first, second))
    common = np.broadcast_shapes(*shapes)
    spread = (
        np.broadcast_to(each, (*common[:axis], each.shape[axis], *common[axis + 1 :])) for each in (first, second)
    )
    return np.concatenate(list(spread), axis)


def _reduce(self: Any, given: tuple[Any, ...]) -> list[Any]:
    dtypes = [each.dtype for each in given]
    data = [each.handle.data for each in given]
    rank = data[0].ndim
    if self.axis is None:
        data = [each.flatten() for each in data]
    axis = (self.axis or 0) % rank
    found = reduced(data, axis, combining(self.combine_fn, self.to_tensor, dtypes))
    if not self.keep_dims:
        found = [np.squeeze(each, axis) for each in found]
    elif self.axis is None:
        found = [each.reshape([1] * rank) for each in found]
    return [self.to_tensor(each, dtype) for each, dtype in zip(found, dtypes, strict=True)]


def _scan(self: Any, given: tuple[Any, ...]) -> list[Any]:
    dtypes = [each.dtype for each in given]
    data = [each.handle.data for each in given]
    found = scanned(data, self.axis % data[0].ndim, combining(self.combine_fn, self.to_tensor, dtypes))
    return [self.to_tensor(each, dtype) for each, dtype in zip(found, dtypes, strict=True)]
