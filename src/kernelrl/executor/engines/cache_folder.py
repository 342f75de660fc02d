"""The folder of the executor's caches: its secret, its name, each machine's part of it, and whose verdicts count."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import secrets
import tempfile
from functools import cache
from pathlib import Path


def read_secret(cache: Path) -> str:
    """The secret from which the seeds of hidden inputs are derived, made once. No candidate can read its folder."""
    return _once(cache / "secret", secrets.token_hex(32))


def cache_id(cache: Path) -> str:
    """A name of this cache folder: machines that see the same one share their builds."""
    return _once(cache / "id", secrets.token_hex(8))


def own_folder(cache: Path) -> Path:
    """This machine's folder in a cache that other machines may share: SQLite and process ids are of one machine."""
    return cache / "hosts" / platform.node()


def _once(path: Path, text: str) -> str:
    """The text of a file, which is `text` where there is none yet; whole also for others who ask at this moment."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)  # of mode 0600
        with open(handle, "w") as file:
            file.write(text)
        with contextlib.suppress(FileExistsError):
            os.link(name, path)
        os.unlink(name)
    return path.read_text()


@cache
def judging_code() -> str:
    """Digest of the text that judges: verdicts made by another version of it are not recalled."""
    package = Path(__file__).parents[2]
    files = [path for name in ("executor", "dialects") for path in sorted((package / name).rglob("*.*"))]
    paths = [path for path in files if path.suffix in (".py", ".c", ".cpp", ".h")]
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()
