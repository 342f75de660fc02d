"""A table of tasks: Parquet or JSON Lines, one file or a folder of them.

Either curation's own task tables (`tasks_*.parquet`: a column `task` with the JSON of a `Task`), or plain rows with
columns of any name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from omegaconf import DictConfig
from pydantic import ValidationError

from kernelrl.data.sources import Gathering, Kernel, TaskSplit
from kernelrl.data.tables import ROWS_AT_ONCE, decode, read_json_lines
from kernelrl.errors import UserError
from kernelrl.task import Task

_OWN = "task"
_FILES = (".parquet", ".jsonl", ".json")


def load(cfg: DictConfig) -> TaskSplit:
    """The rows' tasks.

    Args:
        cfg: `path`, `columns` (the names of the columns that hold the fields of a task, and its kernel; null: there is
            none), and the settings of a `Gathering`.

    Raises:
        UserError: nothing there, no table, or a column is missing.
    """
    found = Gathering(cfg)
    for where, row in _rows(cfg, lambda where: found.skip("not_text", where)):
        try:
            found.add(_task(row, cfg.columns, where))
        except ValidationError as error:
            wrong = error.errors()[0]
            found.skip("wrong_row", f"{where}: {'.'.join(map(str, wrong['loc']))}: {wrong['msg']}")
    return found.split()


def load_kernels(cfg: DictConfig) -> dict[str, list[Kernel]]:
    """The kernels of plain rows by task id: `columns.kernel`, in the dialect that `columns.dialect` says.

    Raises:
        UserError: the columns are not given.
    """
    if not (cfg.columns.kernel and cfg.columns.dialect):
        raise UserError("tasks.columns.kernel and tasks.columns.dialect: give both, to have the table's kernels")
    kernels: dict[str, list[Kernel]] = {}
    for where, row in _rows(cfg, lambda where: None):
        if row[cfg.columns.kernel]:
            kernel = Kernel(row[cfg.columns.dialect], row[cfg.columns.kernel])
            kernels.setdefault(_task(row, cfg.columns, where).id, []).append(kernel)
    return kernels


def _task(row: dict[str, Any], columns: DictConfig, where: str) -> Task:
    """The task of a row; a row without an id is known by what it says."""
    if _OWN in row:
        return Task.model_validate_json(row[_OWN])
    fields = {name: row[column] for name, column in columns.items() if column and name in Task.model_fields}
    task = Task.model_validate({"id": where, **{name: value for name, value in fields.items() if value is not None}})
    return task if "id" in fields else task.model_copy(update={"id": f"table/{task.digest[:16]}"})


def _rows(cfg: DictConfig, skip: Callable[[str], None]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows, each with where it stands; `skip` is told of those whose text is not valid UTF-8."""
    path = Path(str(cfg.path)).expanduser()
    files = sorted(file for file in path.iterdir() if file.suffix in _FILES) if path.is_dir() else [path]
    if not path.exists() or not files:
        raise UserError(f"tasks.path={cfg.path}: {'no table in it' if path.exists() else 'no such file or folder'}; "
                        f"give a {', '.join(_FILES)} file or a folder of them")  # fmt: skip
    for file in files:
        rows = _read_parquet(file, skip) if file.suffix == ".parquet" else read_json_lines(file, skip)
        for number, row in rows:
            wanted = [str(name) for name in cfg.columns.values() if name]
            missing = [name for name in wanted if name not in row] if _OWN not in row else []
            if missing:
                raise UserError(
                    f"{file}: row {number} has no {', '.join(missing)}; it has {', '.join(row) or 'nothing'}: "
                    "see tasks.columns"
                )
            yield f"{file}:{number}", row


def _read_parquet(file: Path, skip: Callable[[str], None]) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        with pq.ParquetFile(file) as opened:
            pieces = map(pa.Table.from_batches, ([piece] for piece in opened.iter_batches(ROWS_AT_ONCE)))
            for number, row in enumerate((row for piece in pieces for row in decode(piece)), 1):
                if row is None:
                    skip(f"{file}:{number}")
                else:
                    yield number, row
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError(f"{file}: not a Parquet file ({str(error).splitlines()[0]})") from None
