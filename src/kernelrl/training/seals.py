"""Checkpoints that can be trusted.

A checkpoint counts only when it was sealed: after the trainer has written it, `seal.json` gets the sha256 of every file
in it, of a large one its size and the sha256 of samples. A folder without a seal is half written, one that differs from
its seal is corrupt; both are set aside on resume.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from pathlib import Path

from kernelrl.records import digest, write_json

CHECKPOINTS = "checkpoints"
FINAL = "final"
SEAL = "seal.json"
LARGE = 1 << 28
"""A file of more bytes is sealed by samples: 100 GB would take minutes to read."""
SAMPLED = "sampled:"
SAMPLES, SAMPLE = 64, 1 << 18
"""How many are taken of a large file, evenly, its ends among them, and of how many bytes."""

log = logging.getLogger(__name__)


def seal(checkpoint: Path) -> None:
    """Mark a checkpoint as whole."""
    write_json(checkpoint / SEAL, digests(checkpoint))


def last_checkpoint(folder: Path) -> Path | None:
    """The newest whole checkpoint in a folder of checkpoints, or None.

    Newer ones that are half written or corrupt are renamed to `broken-…` and counted in a warning.
    """
    broken = 0
    found = None
    for checkpoint in sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]), reverse=True):
        if _is_whole(checkpoint):
            found = checkpoint
            break
        checkpoint.rename(checkpoint.with_name(f"broken-{time.time_ns()}-{checkpoint.name}"))
        broken += 1
    if broken:
        log.warning(f"{folder}: {broken} half-written or corrupt checkpoint(s) skipped and set aside as broken-*")
    return found


def digests(folder: Path) -> dict[str, str]:
    """What tells the files under a folder from others, by relative path; a seal is no part of it.

    The sha256 (hex) of a file, of a large one that of samples (`sample`): a policy of 100 GB takes a second.
    """
    return {
        str(path.relative_to(folder)): sample(path) if path.stat().st_size > LARGE else digest(path)
        for path in files(folder)
    }


def files(folder: Path) -> list[Path]:
    """The files under a folder; a seal is no part of it."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SEAL)


def num_bytes(folder: Path) -> int:
    """Of the files under a folder; a seal is no part of it."""
    return sum(path.stat().st_size for path in files(folder))


def sample(path: Path) -> str:
    """`sampled:SIZE:` and the sha256 (hex) of the samples of a file: what a torn write or another file has not."""
    size = path.stat().st_size
    found = hashlib.sha256()
    with open(path, "rb") as file:
        for number in range(SAMPLES):
            file.seek(max(0, size - SAMPLE) * number // (SAMPLES - 1))
            found.update(file.read(SAMPLE))
    return f"{SAMPLED}{size}:{found.hexdigest()}"


def _is_whole(checkpoint: Path) -> bool:
    try:
        sealed = json.loads((checkpoint / SEAL).read_text())
    except (FileNotFoundError, ValueError):
        return False
    return bool(sealed == digests(checkpoint))
