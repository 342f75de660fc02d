"""What this process may use of its machine: cores and memory, as its affinity and its control groups allow."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")
WORKER_BYTES = 1 << 30
"""Memory that a worker takes as a rule, its compiler included."""


@cache
def num_cores() -> int:
    """Number of cores that this process may keep busy."""
    return max(1, min([len(os.sched_getaffinity(0)), *(math.ceil(cores) for cores in _core_limits(GROUPS, OWN))]))


@cache
def memory_bytes() -> int:
    """Memory that this process and its children may hold (in bytes)."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([physical, *_memory_limits(GROUPS, OWN)])


def num_workers() -> int:
    """Number of candidates that are built or prepared at once where nobody says how many: one per core, if they fit."""
    return max(1, min(num_cores(), memory_bytes() // WORKER_BYTES))


def _core_limits(groups: Path, own: Path) -> Iterator[float]:
    for folder in _folders(groups, own, "cpu"):
        quota, _, period = _read(folder / "cpu.max").partition(" ")
        if not quota:
            quota, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit():  # otherwise "max", or "-1"
            yield int(quota) / int(period)


def _memory_limits(groups: Path, own: Path) -> Iterator[int]:
    for folder in _folders(groups, own, "memory"):
        limit = _read(folder / "memory.max") or _read(folder / "memory.limit_in_bytes")
        if limit.isdigit():
            yield int(limit)


def _folders(groups: Path, own: Path, controller: str) -> Iterator[Path]:
    """Folders of the control groups that hold for this process, of version 1 and 2, with all that they lie in."""
    for line in _read(own).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        top = groups / controllers if controllers else groups
        folder = top / path.lstrip("/")
        yield from [folder, *(each for each in folder.parents if each.is_relative_to(top))]


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:  # such a limit is not there
        return ""
