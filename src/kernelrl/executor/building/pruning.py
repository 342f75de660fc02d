"""Caches of builds do not grow for ever: what nobody has used for long goes, and what was used last stays."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

IN_USE_S = 3600.0
"""An entry that was used so lately may be open, in another process too, and is never removed (in seconds)."""


@dataclass(frozen=True)
class CacheLimits:
    """What the caches of builds may hold."""

    build_bytes: int = 8 << 30
    """Size of all builds. Precompiled headers are not counted: there are a few for each compiler."""
    days: float = 90.0
    """Age since its last use at which an entry goes (in days)."""


DEFAULT_LIMITS = CacheLimits()


def prune(cache: Path, scratch: Path, limits: CacheLimits) -> None:
    """Remove what is too old, and of the builds those that were used longest ago until the others fit.

    Args:
        cache: folder of the caches. The time of an entry's folder is that of its last use.
        scratch: a folder on the same file system, in which entries are taken apart.
        limits: what may stay.
    """
    now = time.time()
    total = 0
    for last_use, folder in sorted(_entries(cache, "build/*/*", "cubin/*/*"), reverse=True):
        with contextlib.suppress(FileNotFoundError):
            total += sum(path.stat().st_size for path in folder.iterdir())
        age = now - last_use
        if age > IN_USE_S and (total > limits.build_bytes or age > limits.days * 86400):
            _remove(folder, scratch)
    for last_use, folder in _entries(cache, "headers/*"):  # a build that runs may read one: by age alone
        if now - last_use > max(limits.days * 86400, IN_USE_S):
            _remove(folder, scratch)


def _entries(cache: Path, *patterns: str) -> Iterator[tuple[float, Path]]:
    for pattern in patterns:
        for folder in cache.glob(pattern):
            with contextlib.suppress(FileNotFoundError):  # another service prunes too
                yield folder.stat().st_mtime, folder


def _remove(folder: Path, scratch: Path) -> None:
    with tempfile.TemporaryDirectory(dir=scratch, ignore_cleanup_errors=True) as name:
        with contextlib.suppress(OSError):
            os.rename(folder, Path(name) / "gone")  # in one step: nobody finds half an entry
        shutil.rmtree(Path(name) / "gone", ignore_errors=True)
