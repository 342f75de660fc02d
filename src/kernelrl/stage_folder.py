"""Stage folders: where a stage keeps what it made, so that the same command resumes and a finished stage stays so.

A stage folder holds `settings.yaml` (whose folder it is, and what the run was asked to do), `done.json` (its figures,
written last) and a lock. As long as there is nothing else in it, the settings may still be changed.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from omegaconf import DictConfig, OmegaConf

from kernelrl import __version__
from kernelrl.configs import to_dict
from kernelrl.errors import UserError
from kernelrl.records import write_atomically, write_json

SETTINGS = "settings.yaml"
DONE = "done.json"
STAGE_MARK = "# stage: "
"""Begins the first line of `settings.yaml`; folders that were made by version 0.1.0 have no such line."""
LOCK = ".lock"
LOG = "log.jsonl"
NO_WORK = frozenset({"health", "answers"})
"""Folders in a stage's that hold nothing which its settings decided: signs of life, and answers by what was asked."""
BEFORE_THEY_WERE_SETTINGS: Mapping[str, Any] = {"executor.counters": False, "archive_capacity": 64, "rates": None}
"""What was done before these settings were noted: folders of that time are those of runs that have them so."""
NUM_DIFFERENCES_SHOWN = 5


@dataclass(frozen=True)
class StageFolder:
    """The folder of one run of one stage, opened by `open_stage`."""

    path: Path
    done: bool
    """Finished earlier with the same settings: the stage returns at once."""

    def finish(self, figures: Mapping[str, Any]) -> None:
        """Mark the stage as finished. `figures` is what a reader wants to know about it; JSON values."""
        if is_main_rank():
            write_json(self.path / DONE, {"version": __version__, **figures})


@contextmanager
def open_stage(
    name: str,
    folder: str | Path,
    settings: Mapping[str, Any] | DictConfig,
    way_out: str = "choose another output_dir=, or delete that folder",
    deciding: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda settings: settings,
) -> Iterator[StageFolder]:
    """Create or reopen the folder of a stage, for this process alone.

    Args:
        name: of the stage, for messages.
        folder: created with its parents where it is missing.
        settings: all that decides what the stage makes, digests of its inputs included. YAML values.
        way_out: what a user can do when the folder holds a run with other settings.
        deciding: what of the flattened settings (`trainer.max_steps`) must be as it was; the rest may change.

    Raises:
        UserError: the folder cannot be written, another process has it open, it belongs to another stage, or it holds
            something that a run with other settings has made.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"{name}: cannot create folder {folder}: {error.strerror}; choose another output_dir="
        ) from None
    require_writable(folder, "choose another output_dir=")
    if not is_main_rank():  # the main rank locks, compares and writes for all
        yield StageFolder(folder, is_done(folder))
        return
    with open(folder / LOCK, "a+") as lock:
        _take(lock, name, folder)
        _compare_or_write(name, folder, settings, way_out, deciding)
        yield StageFolder(folder, is_done(folder))


def is_done(folder: str | Path) -> bool:
    """Whether the stage of that folder has finished."""
    return (Path(folder) / DONE).exists()


def read_figures(folder: str | Path) -> dict[str, Any]:
    """The figures that `StageFolder.finish` wrote; empty for a stage that has not finished."""
    path = Path(folder) / DONE
    return json.loads(path.read_text()) if path.exists() else {}


def read_settings(folder: str | Path) -> dict[str, Any]:
    """The settings with which the stage of that folder was opened."""
    return to_dict(cast(DictConfig, OmegaConf.load(Path(folder) / SETTINGS)))


def read_log(path: Path) -> list[dict[str, Any]]:
    """The entries of a training stage's log; a torn last line is left out."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("}\n")]


def require_free_disk(folder: str | Path, num_bytes: int) -> None:
    """Check that the disk under `folder`, which need not exist yet, has room.

    Raises:
        UserError: names the folder, what is needed and what is there (in GiB).
    """
    folder = Path(folder).absolute()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if free < num_bytes:
        raise UserError(
            f"no disk space under {folder}: {num_bytes / 2**30:.1f} GiB needed, {free / 2**30:.1f} GiB free; "
            "free some or choose another output_dir="
        )


def require_writable(folder: str | Path, way_out: str) -> None:
    """Check that files can be made in `folder`, or where it does not exist yet, in the first folder above it.

    Args:
        way_out: what a user can do when they cannot.

    Raises:
        UserError: names the folder and what the system says.
    """
    folder = Path(folder).absolute()
    try:
        existing = next(path for path in (folder, *folder.parents) if path.exists())
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {error.strerror}; {way_out}") from None


def is_main_rank() -> bool:
    """Whether this process is the one that writes for all that train together, as torch numbers them."""
    return os.environ.get("RANK", "0") == "0"


def _take(lock: IO[str], name: str, folder: Path) -> None:
    # lockf, not flock: a forked child that outlives a killed stage must not keep its lock
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        raise UserError(
            f"{name}: folder {folder} is in use by process {lock.read().strip() or 'unknown'}; "
            "wait for it, or choose another output_dir="
        ) from None
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()


def _compare_or_write(
    name: str,
    folder: Path,
    settings: Mapping[str, Any] | DictConfig,
    way_out: str,
    deciding: Callable[[Mapping[str, Any]], Mapping[str, Any]],
) -> None:
    text = OmegaConf.to_yaml(_as_config(settings), resolve=True)
    path = folder / SETTINGS
    if not path.exists():
        write_atomically(path, f"{STAGE_MARK}{name}\n{text}")
        return
    mark = path.read_text().partition("\n")[0]
    if mark.startswith(STAGE_MARK) and mark != f"{STAGE_MARK}{name}":
        raise UserError(f"{name}: folder {folder} belongs to {mark.removeprefix(STAGE_MARK)}; {way_out}")
    before = _flatten(OmegaConf.to_container(OmegaConf.load(path)))
    now = _flatten(OmegaConf.to_container(OmegaConf.create(text)))
    known = {key: value for key, value in BEFORE_THEY_WERE_SETTINGS.items() if key in now}
    old, new = deciding(known | before), deciding(now)
    differing = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
    if differing and not _is_empty(folder):
        shown = [f"{key} was {_show(old, key)}, now {_show(new, key)}" for key in differing[:NUM_DIFFERENCES_SHOWN]]
        if len(differing) > NUM_DIFFERENCES_SHOWN:
            shown.append(f"and {len(differing) - NUM_DIFFERENCES_SHOWN} more")
        raise UserError(f"{name}: folder {folder} holds a run with other settings ({'; '.join(shown)}); {way_out}")
    if before != now:
        write_atomically(path, f"{STAGE_MARK}{name}\n{text}")


def _is_empty(folder: Path) -> bool:
    """Whether a run has made nothing there yet, in none of the stages that it opened inside either."""
    return all(
        path.is_dir() or path.name in (SETTINGS, LOCK) or not NO_WORK.isdisjoint(path.relative_to(folder).parts[:-1])
        for path in folder.rglob("*")
    )


def _show(settings: Mapping[str, Any], key: str) -> str:
    return repr(settings[key]) if key in settings else "not set"


def _as_config(settings: Mapping[str, Any] | DictConfig) -> DictConfig:
    if isinstance(settings, DictConfig):
        return settings
    # nodes of the run's config are resolved where they stand: their interpolations need their parents
    plain = {
        key: OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
        for key, value in settings.items()
    }
    return OmegaConf.create(plain)


def _flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one: `{"a": {"b": 1}}` -> `{"a.b": 1}`."""
    if not isinstance(value, dict) or not value:
        return {prefix: value}
    flat: dict[str, Any] = {}
    for key, child in value.items():
        flat |= _flatten(child, f"{prefix}.{key}" if prefix else str(key))
    return flat
