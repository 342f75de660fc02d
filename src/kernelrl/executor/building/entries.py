"""Entries of the content-addressed caches: their keys, and how they come in."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path


def digest(*parts: object) -> str:
    """The key of what depends on these parts alone."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def build_folder(cache: Path, key: str) -> Path:
    """Where the build of a content key is kept."""
    return cache / "build" / key[:2] / key


def publish(work: Path, folder: Path) -> None:
    """Move a finished entry into the cache, whole or not at all; another process may have been first."""
    for path in (*work.iterdir(), work):
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)  # else a machine that loses power could leave a file that is there and empty
        os.close(handle)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError):
        os.rename(work, folder)
