"""The Parquet files of curation: their columns, written atomically and in pieces, read with their columns checked."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kernelrl.errors import UserError
from kernelrl.task import Task
from kernelrl.verdict import Verdict

Row = dict[str, Any]

SFT_TRAIN, SFT_HELDOUT = "sft_train.parquet", "sft_heldout.parquet"
TASKS_TRAIN, TASKS_HELDOUT = "tasks_train.parquet", "tasks_heldout.parquet"
"""Files of a data set folder."""
PREFERENCES_TRAIN, LABELS_TRAIN = "preferences_train.parquet", "labels_train.parquet"
REFINEMENTS_TRAIN = "refinements_train.parquet"
"""Of a data set folder where there is a row for them."""
TASKS, PROPOSALS = "tasks.parquet", "proposals.parquet"
"""Files of a folder of verified proposals."""
CONTAMINATION, MATCHES = "contamination.json", "matches.jsonl"
"""Files of both: the report of decontamination, and every match, a line each."""

_MESSAGES = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
_SPEEDUP = pa.struct([("median", pa.float64()), ("low", pa.float64()), ("high", pa.float64()), ("pairs", pa.int64())])
VERDICT = pa.struct(
    [
        ("status", pa.string()),
        ("protocol", pa.string()),
        ("device", pa.string()),
        ("interpreted", pa.bool_()),
        ("speedup", _SPEEDUP),
    ]
)
"""What a data set keeps of a verdict; `records/` has all of it."""
_ABOUT_TASK = [
    ("task_id", pa.string()),
    ("category", pa.string()),
    ("level", pa.int64()),
    ("ops", pa.list_(pa.string())),
    ("difficulty", pa.string()),
    ("origin", pa.string()),
    ("licence", pa.string()),
    ("revision", pa.string()),
]
_ABOUT_PROPOSAL = [
    ("teacher", pa.string()),
    ("kernel_level", pa.string()),
    ("model", pa.string()),
    ("request", pa.string()),
    ("prompt_tokens", pa.int64()),
    ("completion_tokens", pa.int64()),
    ("finish", pa.string()),
]
"""Who wrote the kernel, at which level of optimisation, and what the answer took; null where no model was asked."""
TASK_COLUMNS = pa.schema([*_ABOUT_TASK, ("solved", pa.float64()), ("prompt", _MESSAGES), ("task", pa.string())])
"""`solved` is the share of the task's judged proposals that are correct; null where there is none."""
SFT_COLUMNS = pa.schema(
    [
        ("prompt", _MESSAGES),
        ("completion", _MESSAGES),
        *_ABOUT_TASK,
        ("dialect", pa.string()),
        ("reasoning", pa.string()),
        ("reasoning_tokens", pa.int64()),
        ("kernel", pa.string()),
        ("verdict", VERDICT),
        *_ABOUT_PROPOSAL,
        ("seed", pa.int64()),
        ("selected_by", pa.string()),
        ("record", pa.string()),
    ]
)
_ABOUT_QUESTION = [
    (name, pa.string()) for name in ("task_id", "category", "difficulty", "origin", "licence", "dialect")
]
PREFERENCE_COLUMNS = pa.schema(
    [
        ("prompt", _MESSAGES),
        ("chosen", _MESSAGES),
        ("rejected", _MESSAGES),
        ("why", pa.string()),
        *_ABOUT_QUESTION,
        ("chosen_record", pa.string()),
        ("rejected_record", pa.string()),
    ]
)
LABEL_COLUMNS = pa.schema(
    [
        ("prompt", _MESSAGES),
        ("completion", _MESSAGES),
        ("label", pa.bool_()),
        ("status", pa.string()),
        *_ABOUT_QUESTION,
        ("record", pa.string()),
    ]
)
REFINEMENT_COLUMNS = pa.schema(
    [
        ("prompt", _MESSAGES),
        ("completion", _MESSAGES),
        ("status", pa.string()),
        *_ABOUT_QUESTION,
        ("teacher", pa.string()),
        ("wrong_record", pa.string()),
        ("record", pa.string()),
    ]
)
DRAWN_COLUMNS = pa.schema([("split", pa.string()), ("task", pa.string())])
PROPOSAL_COLUMNS = pa.schema(
    [
        ("split", pa.string()),
        ("task_id", pa.string()),
        ("dialect", pa.string()),
        *_ABOUT_PROPOSAL,
        ("completion", pa.string()),
        ("reasoning", pa.string()),
        ("kernel", pa.string()),
        ("verdict", VERDICT),
        ("record", pa.string()),
    ]
)
ROWS_AT_ONCE = 1000
"""Rows of one row group: more are never in memory."""


def verdict_columns(verdict: Verdict) -> Row:
    """The columns of `VERDICT`."""
    return {
        "status": verdict.status,
        "protocol": verdict.protocol,
        "device": verdict.device,
        "interpreted": verdict.interpreted,
        "speedup": None if verdict.speedup is None else verdict.speedup.model_dump(),
    }


def write_table(path: Path, rows: Iterable[Row], columns: pa.Schema) -> int:
    """Write rows as one Parquet file and return their number; a reader sees the old file or the whole new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    rows, count = iter(rows), 0
    with pq.ParquetWriter(temporary, columns) as writer:
        while piece := list(islice(rows, ROWS_AT_ONCE)):
            writer.write_table(pa.Table.from_pylist(piece, schema=columns))
            count += len(piece)
    os.replace(temporary, path)
    return count


def read_table(path: Path, columns: Sequence[str]) -> list[Row]:
    """Rows of a Parquet file.

    Args:
        columns: those that must be there; others are left out.

    Raises:
        UserError: no such file, no Parquet, no rows, or columns missing (named).
    """
    if not path.is_file():
        raise UserError(f"data set {path}: no such file; run kernelrl curate first, or set the stage's data= folder")
    try:
        names = pq.read_schema(path).names
    except pa.ArrowInvalid as error:
        raise UserError(f"data set {path}: not a Parquet file ({str(error).splitlines()[0]})") from None
    missing = [name for name in columns if name not in names]
    if missing:
        raise UserError(f"data set {path}: column(s) {', '.join(missing)} missing; it has {', '.join(names)}")
    rows: list[Row] = pq.read_table(path, columns=list(columns)).to_pylist()
    if not rows:
        raise UserError(f"data set {path}: it has no rows")
    return rows


def read_references(path: Path | None, needed: bool) -> dict[str, list[str]]:
    """Sources of kernels that are known to be right, by task id, from the columns `task_id` and `kernel`.

    Args:
        path: None, or a file that is not there: none are known.
        needed: that is an error.

    Raises:
        UserError: they are needed and there is no such file.
    """
    if not needed and (path is None or not path.exists()):
        return {}
    if path is None:
        raise UserError("the reward needs kernels known to be right; name a file: eval.references=…, --references …")
    references: defaultdict[str, list[str]] = defaultdict(list)
    for row in read_table(path, ["task_id", "kernel"]):
        references[row["task_id"]].append(row["kernel"])
    return {id: list(dict.fromkeys(kernels)) for id, kernels in references.items()}


def read_json_lines(path: Path, skip: Callable[[str], None] | None = None) -> Iterator[tuple[int, Row]]:
    """The objects of a JSON Lines file, each with the number of its line; empty lines are passed over.

    Args:
        skip: told where a line is that is not valid UTF-8, which is then passed over; None: that is an error too.

    Raises:
        UserError: a line is no JSON object.
    """
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if line.strip():
            try:
                row = json.loads(line.decode())
            except UnicodeDecodeError as error:
                if skip is None:
                    raise UserError(f"{path}: line {number} is not valid UTF-8 ({error})") from None
                skip(f"{path}:{number}")
                continue
            except ValueError as error:
                raise UserError(f"{path}: line {number} is not JSON ({error}); give one object per line") from None
            if not isinstance(row, dict):
                raise UserError(f"{path}: line {number} is no JSON object; give one object per line")
            yield number, row


def decode(table: pa.Table) -> Iterator[Row | None]:
    """Rows of a table that others have written; None for a row with text that is not valid UTF-8."""
    try:
        yield from table.to_pylist()
    except UnicodeDecodeError:
        for number in range(table.num_rows):
            try:
                yield from table.slice(number, 1).to_pylist()
            except UnicodeDecodeError:
                yield None


def iterate_table(path: Path, columns: Sequence[str] | None = None) -> Iterator[Row]:
    """Rows of a Parquet file that curation wrote, a piece at a time; all columns or the named ones."""
    with pq.ParquetFile(path) as file:
        for piece in file.iter_batches(ROWS_AT_ONCE, columns=None if columns is None else list(columns)):
            yield from piece.to_pylist()


def read_verified(folder: Path, statuses: Collection[str]) -> Iterator[tuple[Task, Row]]:
    """The proposals of a `curate.verified` folder whose verdict has one of the statuses, each with its task.

    Raises:
        UserError: it is no such folder.
    """
    tasks = {
        task.id: task
        for task in (Task.model_validate_json(row["task"]) for row in read_table(folder / TASKS, ("task",)))
    }
    for row in iterate_table(folder / PROPOSALS, ("split", "task_id", "dialect", "reasoning", "kernel", "verdict")):
        if row["verdict"]["status"] in statuses:
            yield tasks[row["task_id"]], row
