"""Logs of a run of several processes: one folder per attempt under `OUTPUT_DIR/logs`, and a link to the newest."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

LOGS = "logs"
LATEST = "latest"


def open_logs(output_dir: Path, attempt: str) -> Path:
    """The folder of this attempt, which `latest` then points to."""
    folder = output_dir / LOGS / attempt
    folder.mkdir(parents=True, exist_ok=True)
    link = folder.parent / f".{LATEST}-{os.getpid()}"
    with contextlib.suppress(FileExistsError):
        link.symlink_to(attempt)
    os.replace(link, folder.parent / LATEST)
    return folder
