"""Tasks read from files: what curation writes, a folder in KernelBench's layout, JSON lines."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pydantic import ValidationError

from kernelrl.data.decontamination.fingerprint import Fingerprint
from kernelrl.data.tables import read_json_lines, read_table
from kernelrl.errors import TaskError, UserError
from kernelrl.task import Task

log = logging.getLogger(__name__)

_SOURCES = ("source", "task", "code", "reference")
"""Fields that may hold a program's text, or a whole `Task` as JSON."""
_IDS = ("id", "task_id", "name")


@dataclass(frozen=True)
class Benchmark:
    """Tasks that must not be trained on."""

    name: str
    tasks: tuple[Task, ...]
    path: str | None = None
    """Where they were read; None: the caller has them."""
    fingerprints: tuple[Fingerprint, ...] | None = None
    """Of tasks whose programs are not here (`known.py`); None: they are computed."""


def read_benchmark(path: str | Path) -> Benchmark:
    """A benchmark named after its file or folder.

    Raises:
        UserError: see `read_tasks`.
    """
    whole = Path(path).expanduser().absolute()
    return Benchmark(whole.stem if whole.is_file() else whole.name, tuple(read_tasks(path)), str(path))


def read_tasks(path: str | Path) -> list[Task]:
    """The tasks of a file or a folder.

    Args:
        path: a `.py` file; a `.jsonl` or `.parquet` file with a field `source`, `task`, `code` or `reference` (text of
            the program, or a `Task` as JSON) and, if it likes, `id`, `task_id` or `name`; or a folder of `.py` files
            at any depth. Python files that define no `Model` are left out, with a warning.

    Raises:
        UserError: no such path, another format, or no task in it.
    """
    path = Path(path).expanduser()
    if not path.exists():
        raise UserError(
            f"{path}: no such file or folder; give a .py, .jsonl or .parquet file, or a folder of .py files"
        )
    if path.is_dir():
        tasks = list(_read_folder(path))
    elif path.suffix == ".py":
        try:
            tasks = [Task.from_file(path)]
        except TaskError as error:
            raise UserError(str(error)) from None
    elif path.suffix == ".jsonl":
        tasks = [_to_task(row, f"{path}:{number}") for number, row in read_json_lines(path)]
    elif path.suffix == ".parquet":
        tasks = [_to_task(row, f"{path}:{number}") for number, row in enumerate(_read_rows(path))]
    else:
        raise UserError(f"{path}: not a .py, .jsonl or .parquet file, nor a folder of .py files")
    if not tasks:
        raise UserError(f"{path}: holds no task; a task is a Python file with Model, get_inputs and get_init_inputs")
    return tasks


def _read_folder(folder: Path) -> Iterator[Task]:
    skipped = []
    for path in sorted(folder.rglob("*.py")):
        try:
            task = Task.from_file(path)
        except TaskError as error:
            skipped.append(str(error))
        else:
            yield task.model_copy(update={"id": path.relative_to(folder).with_suffix("").as_posix()})
    if skipped:
        log.warning(f"{folder}: {len(skipped)} Python file(s) are no tasks and are not compared; first: {skipped[0]}")


def _read_rows(path: Path) -> list[dict[str, Any]]:
    try:
        names = pq.read_schema(path).names
    except (OSError, ValueError):  # what is wrong with it, `read_table` says
        names = []
    columns = [name for name in (*_SOURCES, *_IDS) if name in names]
    return read_table(path, columns or [_SOURCES[0]])


def _to_task(row: Mapping[str, Any], where: str) -> Task:
    text = next((row[name] for name in _SOURCES if isinstance(row.get(name), str)), None)
    if text is None:
        raise UserError(f"{where}: no field {', '.join(_SOURCES)} with the text of a program")
    fields = {name: row[name] for name in Task.model_fields if row.get(name) is not None}
    name = next((str(row[key]) for key in _IDS if row.get(key) is not None), where)
    try:
        if text.lstrip().startswith("{"):
            return Task.model_validate_json(text)
        return Task.model_validate({**fields, "id": name, "source": text})
    except ValidationError as error:
        raise UserError(f"{where}: not a task: {error.errors()[0]['msg']}") from None
