"""Which of PyTorch's operators a genuine kernel may use around its own work: allocation, views and plain copies."""

from __future__ import annotations

from collections.abc import Iterable

PLUMBING = frozenset(
    f"aten::{name}"
    for name in (
        # allocation
        "empty empty_like empty_strided new_empty new_empty_strided zeros zeros_like new_zeros ones ones_like new_ones "
        "full full_like new_full fill_ zero_ scalar_tensor resize_ set_ lift_fresh "
        # views
        "view reshape _unsafe_view _reshape_alias expand permute transpose t squeeze unsqueeze slice select as_strided "
        "detach alias unbind split split_with_sizes narrow view_as_real view_as_complex diagonal unfold "
        # plain copies and conversions
        "clone contiguous copy_ _to_copy item _local_scalar_dense"
    ).split()
)


def library_operators(names: Iterable[str]) -> list[str]:
    """The operators among `names` that compute, which is the kernel's own work."""
    return [name for name in names if name not in PLUMBING]
