"""Builds on their way from one machine's cache to another's, where the two do not share a file system."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from kernelrl.executor.building.entries import build_folder, publish

Packed = dict[str, dict[str, bytes]]
"""By content key: the files of a build."""


def pack(cache: Path, keys: Iterable[str]) -> Packed:
    """The builds of these keys, of those that are in the cache."""
    folders = {key: build_folder(cache, key) for key in keys}
    return {
        key: {path.name: path.read_bytes() for path in folder.iterdir()}
        for key, folder in folders.items()
        if (folder / "build.json").exists()
    }


def missing(cache: Path, keys: Iterable[str]) -> bool:
    """Whether some of these builds are not in the cache."""
    return any(not (build_folder(cache, key) / "build.json").exists() for key in keys)


def unpack(cache: Path, packed: Packed) -> None:
    """Put builds into the cache, each in one step."""
    for key, files in packed.items():
        with tempfile.TemporaryDirectory(dir=cache) as name:
            work = Path(name) / "unit"
            work.mkdir()
            for file, content in files.items():
                (work / file).write_bytes(content)
            publish(work, build_folder(cache, key))
