"""How the C library hands out memory in a contestant's process while memory is measured in it, and afterwards."""

from __future__ import annotations

import ctypes

MEASURED_BYTES, KEPT_BYTES = 128 << 10, 32 << 20
"""Allocations from this size on are given back when they are freed: while memory is measured, so that only what a
program holds counts; and later, when it should not cost page faults."""
_M_MMAP_THRESHOLD = -3
_LIBC = ctypes.CDLL(None)


def give_back() -> None:
    """From now on what is freed does not count any more."""
    _LIBC.mallopt(_M_MMAP_THRESHOLD, MEASURED_BYTES)


def keep() -> None:
    """From now on what is freed is used again."""
    _LIBC.mallopt(_M_MMAP_THRESHOLD, KEPT_BYTES)
