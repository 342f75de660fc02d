"""How the C library hands out memory in a contestant's process, from what is measured in it to what is timed in it."""

from __future__ import annotations

import ctypes

import torch

MEASURED_BYTES, KEPT_BYTES = 128 << 10, 32 << 20
"""Allocations from this size on are given back when they are freed: while memory is measured, so that only what a
program holds counts; and later, when the outputs of a call should not cost page faults."""
ROOM = 5
"""How many times its outputs fit into the memory that a process has at hand, as far as the allocator keeps it."""
GARBAGE = 0xA5
"""Complement of the bytes that fill memory where nobody has written: as a float 1.5e16."""
_M_MMAP_THRESHOLD, _M_PERTURB = -3, -6
_LIBC = ctypes.CDLL(None)


def give_back() -> None:
    """From now on what is freed does not count any more."""
    _LIBC.mallopt(_M_MMAP_THRESHOLD, MEASURED_BYTES)
    _LIBC.mallopt(_M_PERTURB, 0)


def keep(garbage: bool) -> None:
    """From now on what is freed is used again.

    Args:
        garbage: new memory is filled with it, and so is not zero by luck. Filling takes time.
    """
    _LIBC.mallopt(_M_MMAP_THRESHOLD, KEPT_BYTES)
    _LIBC.mallopt(_M_PERTURB, GARBAGE if garbage else 0)


def make_room(num_bytes: int) -> None:
    """Touch memory for further outputs of so many bytes in all, and give it back to the allocator.

    A young process would get untouched memory for some of them, each page of which is a fault: an output of a
    megabyte costs 0.3 ms more in that call.
    """
    copies = min(ROOM, KEPT_BYTES // max(num_bytes, 1))
    room = [torch.ones(num_bytes, dtype=torch.uint8) for _ in range(copies)]
    del room  # all of it at once: one by one, each would lie where the one before has lain
