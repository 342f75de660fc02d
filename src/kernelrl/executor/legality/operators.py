"""Which of PyTorch's operators a genuine kernel may use around its own work: allocation, views and plain copies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Set

ALLOCATION = frozenset(
    f"aten::{name}"
    for name in (
        "empty empty_like empty_strided new_empty new_empty_strided zeros zeros_like new_zeros ones ones_like new_ones "
        "full full_like new_full fill_ zero_ scalar_tensor resize_ set_ lift_fresh"
    ).split()
)
VIEWS = frozenset(
    f"aten::{name}"
    for name in (
        "view reshape _unsafe_view _reshape_alias expand permute transpose t squeeze unsqueeze slice select as_strided "
        "detach alias unbind split split_with_sizes narrow view_as_real view_as_complex diagonal unfold "
        # others in other words
        "view_as reshape_as expand_as broadcast_to flatten unflatten ravel movedim moveaxis swapaxes swapdims "
        "numpy_T mT chunk tensor_split hsplit vsplit dsplit "
        # single elements
        "item _local_scalar_dense"
    ).split()
)
"""Some of them copy where there is no view (`reshape`): then they count as copies."""
ALLOCATION_AND_VIEWS = ALLOCATION | VIEWS
_LAUNCHES_NOTHING = (VIEWS - {"aten::item", "aten::_local_scalar_dense"}) | frozenset(
    f"aten::{name}" for name in "empty empty_like empty_strided new_empty new_empty_strided set_ lift_fresh".split()
)
COPIES = frozenset(f"aten::{name}" for name in "clone contiguous copy_ _to_copy to type_as".split())
"""Plain copies and conversions: plumbing around a computation, and the work itself where data is only moved."""
PLUMBING = ALLOCATION_AND_VIEWS | COPIES

_MOVES = PLUMBING | frozenset(
    f"aten::{name}"
    for name in (
        "cat stack repeat repeat_interleave tile roll flip rot90 index index_select gather take take_along_dim scatter "
        "index_put index_copy index_fill embedding masked_select masked_scatter masked_fill where tril triu diag "
        "diag_embed slice_scatter select_scatter diagonal_scatter as_strided_scatter fill fill_diagonal copy zero "
        "constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d "
        "replication_pad3d im2col pixel_shuffle pixel_unshuffle channel_shuffle native_channel_shuffle "
        "complex _to_dense one_hot arange eq ne lt le gt ge logical_and logical_or logical_not logical_xor isnan isinf "
        "upsample_nearest1d upsample_nearest2d upsample_nearest3d "
        "_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d"
    ).split()
)

_COMBINES_BITS = PLUMBING | frozenset(
    f"aten::{name}"
    for name in (
        "bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift __and__ __or__ __xor__ "
        "__lshift__ __rshift__ __iand__ __ior__ __ixor__ __ilshift__ __irshift__ add sub rsub mul neg remainder "
        "floor_divide div fmod where eq ne lt le gt ge sum cat stack roll flip repeat"
    ).split()
)
"""Operators by which programs take integers apart and put them together. None takes a value for a place in memory."""
_OVERLOADS = {"aten::to": "_(dtype|dtype_layout|device|other)"}
"""By operator: its overloads in C++, where others would have names that begin alike (`to_sparse`)."""


def entry_points(names: Iterable[str]) -> str:
    """A pattern of what `at::_ops` calls these operators: their names, with that of an overload behind them."""
    parts = [re.escape(name.removeprefix("aten::")) + _OVERLOADS.get(name, r"(_\w+)?") for name in sorted(names)]
    return f"({'|'.join(parts)})"


def library_operators(names: Iterable[str]) -> list[str]:
    """The operators among `names` that compute, which is the kernel's own work."""
    return [name for name in names if name not in PLUMBING]


def launch_nothing(names: Iterable[str]) -> bool:
    """Whether operators start no kernel of the library's on a GPU."""
    return _LAUNCHES_NOTHING.issuperset(names)


def only_moves(names: Set[str]) -> bool:
    """Whether operators only move, convert or compare data, so that copies are the work and no plumbing."""
    return all(name in _MOVES or name.removesuffix("_").removesuffix("_copy") in _MOVES for name in names)


def combine_bits(names: Set[str]) -> bool:
    """Whether operators do nothing with integers but take them apart and put them together."""
    return all(name in _COMBINES_BITS or name.removesuffix("_") in _COMBINES_BITS for name in names)
