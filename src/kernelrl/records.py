"""`Record`: one line of the run's ledger, and the append-only files that hold them.

A ledger is a folder of JSON-lines shards, one per writing process. A line counts only when it parses as a whole record;
torn or corrupt lines are skipped and counted, never silently. When nobody writes any more, `compact` makes tables of
the shards.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kernelrl import __version__
from kernelrl.verdict import Verdict

SCHEMA_VERSION = 1
BATCH = 4096
"""Records that are read from a table, or written to one, at a time."""
COLUMNS = {
    "schema_version": "BIGINT",
    "id": "VARCHAR",
    "stage": "VARCHAR",
    "step": "BIGINT",
    "policy": "VARCHAR",
    "task_id": "VARCHAR",
    "prompt": "VARCHAR",
    "completion": "VARCHAR",
    "finish": "VARCHAR",
    "prompt_tokens": "BIGINT",
    "completion_tokens": "BIGINT",
    "verdict": "JSON",
    "rewards": "JSON",
    "reward": "DOUBLE",
    "opinion": "DOUBLE",
    "machine": "VARCHAR",
    "version": "VARCHAR",
    "time": "DOUBLE",
    "strategy": "VARCHAR",
    "turn": "BIGINT",
    "parent": "VARCHAR",
}
"""SQL types of a record's fields, in its order; those of JSON are text."""


class Record(BaseModel):
    """One completion and all that became of it. Rewards can be recomputed from it without running anything."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = SCHEMA_VERSION
    id: str
    """Unique in the ledger and the same when the work is repeated, e.g. `grpo/12/3`: stage, step, index."""
    stage: str
    """`curate`, `grpo`, `eval` or `search`."""
    step: int
    """Policy step (optimizer updates before the completion was sampled); 0 outside training."""
    policy: str
    """Name of the policy or the teacher that wrote the completion."""
    task_id: str
    prompt: str
    completion: str
    finish: Literal["stop", "length"] | None = None
    """Why the completion ended: the policy ended it, or it was cut off at the limit of tokens; None: not known."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    verdict: Verdict
    rewards: dict[str, float] = Field(default_factory=dict)
    """Reward parts by name."""
    reward: float | None = None
    """The composed reward; None: left out of the loss (infrastructure)."""
    opinion: float | None = None
    """What the verifier thinks of the kernel, 0 to 1 (`grpo.verifier`); None: it was not asked, or gave no answer."""
    machine: str = ""
    version: str = ""
    """Version of kernelrl."""
    time: float = Field(default_factory=time.time)
    """Unix time (in seconds)."""
    strategy: str | None = None
    """Name of the strategy that asked for the completion; None: it was asked for by itself."""
    turn: int | None = None
    """How many attempts on the task this one builds on, counted along its parents; 0: on none."""
    parent: str | None = None
    """Id of the record that this attempt goes on from; None: of none."""

    @classmethod
    def of(cls, id: str, policy: str, prompt: str, completion: str, verdict: Verdict, **others: Any) -> Record:
        """The record of a new verdict, with all that follows from it, from the id and from this version of kernelrl.

        Args:
            id: begins with the stage; where it does not, `others` names it.
            others: the remaining fields, as far as they are known.
        """
        follows: dict[str, Any] = {
            "stage": id.partition("/")[0],
            "step": 0,
            "task_id": verdict.task_id,
            "machine": verdict.machine,
            "version": __version__,
        }
        return cls(id=id, policy=policy, prompt=prompt, completion=completion, verdict=verdict, **(follows | others))

    def to_columns(self) -> dict[str, Any]:
        """The fields as `COLUMNS` has them."""
        fields = self.model_dump(mode="json")
        return {name: json.dumps(fields[name]) if kind == "JSON" else fields[name] for name, kind in COLUMNS.items()}

    @classmethod
    def from_columns(cls, row: Mapping[str, Any]) -> Record:
        """The record whose `to_columns` is `row`; a line of a version without some of the columns has None there."""
        known = {name: row[name] for name in COLUMNS if row.get(name) is not None}
        return cls.model_validate(
            {name: json.loads(value) if COLUMNS[name] == "JSON" else value for name, value in known.items()}
        )


def shards(folder: Path) -> list[Path]:
    """The files of a ledger: lines (`.jsonl`), or a table (`.parquet`) where they were compacted."""
    tables = {path.stem: path for path in folder.glob("*.parquet")}
    return sorted((({path.stem: path for path in folder.glob("*.jsonl")}) | tables).values())


class Ledger:
    """An append-only folder of records.

    Args:
        folder: created when the first record is written.
        shard: name of this process's file; give each writing process its own (`rank0`, …).
    """

    def __init__(self, folder: str | Path, shard: str = "rank0"):
        self.folder = Path(folder)
        self.path = self.folder / f"{shard}.jsonl"
        self.skipped = 0
        """Number of lines that the last read skipped because they were torn or corrupt."""

    def append(self, records: Iterable[Record]) -> None:
        """Write records in one go and flush them to disk."""
        append_lines(self.path, [record.model_dump_json() for record in records])

    def __iter__(self) -> Iterator[Record]:
        """Whole records of every shard, in order of writing within a shard."""
        self.skipped = 0
        for path in shards(self.folder):
            if path.suffix == ".parquet":
                for batch in pq.ParquetFile(path).iter_batches(BATCH):
                    yield from map(Record.from_columns, batch.to_pylist())
                continue
            with open(path, "rb") as file:
                for line in file:
                    if not line.strip():
                        continue
                    try:
                        yield Record.model_validate_json(line)
                    except ValidationError:
                        self.skipped += 1

    def set_aside(self, superseded: Callable[[Record], bool]) -> int:
        """Move this shard's records that a resumed run is about to repeat into `superseded/`, and say how many.

        Nothing is deleted: the superseded lines stay readable beside the ledger. Torn and corrupt lines stay in
        place.
        """
        if not self.path.exists():
            return 0
        kept: list[bytes] = []
        moved: list[bytes] = []
        for line in self.path.read_bytes().splitlines(keepends=True):
            try:
                record = Record.model_validate_json(line)
            except ValidationError:
                kept.append(line)
                continue
            (moved if superseded(record) else kept).append(line)
        if moved:
            aside = self.folder / "superseded" / self.path.name
            aside.parent.mkdir(exist_ok=True)
            with open(aside, "ab") as file:
                file.write(b"".join(moved))
                file.flush()
                os.fsync(file.fileno())
            write_atomically(self.path, b"".join(kept))
        return len(moved)


def compact(folder: Path) -> int:
    """Turn the shards of a ledger that nobody writes any more into tables, a tenth of the size, and say how many lines
    were corrupt: those are kept in `SHARD.corrupt`. A kill at any moment loses and doubles nothing.
    """
    num_corrupt = 0
    for lines in sorted(folder.glob("*.jsonl")):
        table, temporary = lines.with_suffix(".parquet"), lines.with_suffix(".parquet.tmp")
        if not table.exists():
            corrupt = _write_table(lines, temporary)
            num_corrupt += len(corrupt)
            if corrupt:
                write_atomically(lines.with_suffix(".corrupt"), b"".join(corrupt))
            os.replace(temporary, table)
        lines.unlink()
    return num_corrupt


def _write_table(lines: Path, table: Path) -> list[bytes]:
    """Write the records of a shard as a Parquet file; returns the lines that are none."""
    types = {"BIGINT": pa.int64(), "DOUBLE": pa.float64()}
    schema = pa.schema([(name, types.get(kind, pa.string())) for name, kind in COLUMNS.items()])
    corrupt: list[bytes] = []
    with pq.ParquetWriter(table, schema, compression="zstd") as writer, open(lines, "rb") as file:
        while batch := list(islice(file, BATCH)):
            rows = []
            for line in batch:
                try:
                    rows.append(Record.model_validate_json(line).to_columns())
                except ValidationError:
                    corrupt += [line] if line.strip() else []
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
    return corrupt


def append_lines(path: Path, lines: Sequence[str]) -> None:
    """Append lines to a file in one go, and flush them to disk. The folder is made for the first one."""
    if not lines:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab+") as file:
        file.seek(0, os.SEEK_END)
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":  # a killed writer left half a line: close it, so that only that line is lost
                file.write(b"\n")
        file.write(b"".join(line.encode() + b"\n" for line in lines))
        file.flush()
        os.fsync(file.fileno())


def write_atomically(path: Path, data: bytes | str) -> None:
    """Write a file so that a reader or a crash sees the old content or the new, never half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with open(temporary, "wb") as file:
        file.write(data.encode() if isinstance(data, str) else data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def write_json(path: Path, value: object) -> None:
    """Write a JSON file atomically, indented, keys in the given order."""
    write_atomically(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def digest(path: Path) -> str:
    """sha256 (hex) of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
