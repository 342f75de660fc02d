"""Logs of a run of several processes: one folder per attempt under `OUTPUT_DIR/logs`, and a link to the newest."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def open_logs(output_dir: Path, attempt: str) -> Path:
    """The folder of this attempt, which `latest` then points to."""
    folder = output_dir / "logs" / attempt
    folder.mkdir(parents=True, exist_ok=True)
    link = folder.parent / f".latest-{os.getpid()}"
    with contextlib.suppress(FileExistsError):
        link.symlink_to(attempt)
    os.replace(link, folder.parent / "latest")
    return folder
