"""Which revision of a source is read, and that it stays the same while a curation goes on."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from huggingface_hub import HfApi

from kernelrl.errors import UserError
from kernelrl.records import write_json

FILE = "revisions.json"


def find_revision(path: str | None, wanted: str | None = None) -> str | None:
    """The commit of the checkout that holds a folder or file, or of a data set on the hub; None: not known.

    Args:
        wanted: branch, tag or commit of a data set on the hub; None: its main branch.
    """
    if path is None:
        return None
    local = Path(path).expanduser()
    if local.exists():
        return _last_commit(local)
    if path.count("/") != 1 or local.suffix or local.is_absolute():
        return None
    try:
        return HfApi(endpoint=os.environ.get("HF_ENDPOINT")).dataset_info(path, revision=wanted, timeout=10).sha
    except Exception:  # every network library has its own; what cannot be asked now may be in the cache
        return wanted


def require_same(folder: Path, found: Iterable[str | None]) -> None:
    """Write down the revisions of the tasks of a curation, or compare them with those that it began with.

    Raises:
        UserError: the source has moved since.
    """
    now = sorted({revision for revision in found if revision is not None})
    file = folder / FILE
    if not file.exists():
        write_json(file, now)
    elif (before := json.loads(file.read_text())) != now:
        raise UserError(
            f"the tasks' source is now at {', '.join(now) or 'no revision'}, and {folder} was begun at "
            f"{', '.join(before) or 'no revision'}: go back to that (tasks.revision=, or check it out), or choose "
            "another curate.verified="
        )


def _last_commit(path: Path) -> str | None:
    folder = path if path.is_dir() else path.parent
    last = ["git", "-C", str(folder), "log", "-1", "--format=%H", "--", str(path.absolute())]
    try:
        return subprocess.run(last, capture_output=True, text=True, timeout=10).stdout.strip() or None
    except (OSError, subprocess.TimeoutExpired):
        return None
