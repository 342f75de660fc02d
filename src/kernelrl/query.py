"""Ask the records below a folder by SQL: DuckDB reads the ledgers' shards as they are, a million records in half a
minute and in little memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb

from kernelrl.errors import UserError
from kernelrl.records import COLUMNS, Record, shards

MEMORY = "2GB"
_DERIVED = """
    verdict->>'$.status' AS status,
    CAST(verdict->>'$.speedup.median' AS DOUBLE) AS speedup,
    CAST(verdict->>'$.speedup.low' AS DOUBLE) AS speedup_low,
    CAST(verdict->>'$.coverage' AS DOUBLE) AS coverage,
    verdict->>'$.violations[*].rule' AS rules,
    status <> 'illegal' AND verdict->>'$.stage' NOT IN ('none', 'parsed') AS legal
"""


class Query:
    """The records below a folder as a table `records`.

    Its columns are the fields of a `Record` (`verdict` and `rewards` as JSON) and, taken from the verdict, `status`,
    `legal`, `speedup` (median), `speedup_low`, `coverage` and `rules` (those that it broke). Torn and corrupt lines are
    left out.

    Args:
        run: folder of a run, a stage or a ledger.

    Raises:
        UserError: there are no records.
    """

    def __init__(self, run: Path):
        self.run = run
        folders = sorted({path.parent for path in run.rglob("*") if path.parent.name == "records"}) or [run]
        files = [path for folder in folders for path in shards(folder)]
        if not files:
            raise UserError(f"{run}: no record in it; the folder of a run holds STAGE/records/*.jsonl")
        self._connection = duckdb.connect(config={"memory_limit": MEMORY})
        lines = [str(path) for path in files if path.suffix == ".jsonl"]
        tables = [str(path) for path in files if path.suffix == ".parquet"]
        columns = ", ".join(f"{name}: '{kind}'" for name, kind in COLUMNS.items())
        names = ", ".join(COLUMNS)
        parts = []
        if lines:
            parts.append(
                f"SELECT {names} FROM read_ndjson({lines!r}, columns={{{columns}}}, ignore_errors=true, "
                "maximum_object_size=67108864) WHERE id IS NOT NULL AND verdict IS NOT NULL"
            )
        if tables:
            typed = ", ".join(f"NULL::{kind} AS {name}" for name, kind in COLUMNS.items())
            read = f"SELECT * FROM read_parquet({tables!r}, union_by_name=true)"  # older tables lack some columns
            parts.append(f"SELECT {names} FROM (SELECT {typed} WHERE false UNION ALL BY NAME {read})")
        self._connection.sql(f"CREATE VIEW records AS SELECT *, {_DERIVED} FROM ({' UNION ALL '.join(parts)})")

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """The result of a query; `?` in it stand for the values."""
        cursor = self._connection.execute(sql, values)
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def records(self, rest: str, values: Sequence[Any] = ()) -> Iterator[Record]:
        """Whole records.

        Args:
            rest: what follows `FROM records`, e.g. `WHERE status = ? ORDER BY step LIMIT 10`.
        """
        cursor = self._connection.execute(f"SELECT {', '.join(COLUMNS)} FROM records {rest}", values)
        while batch := cursor.fetchmany(1024):
            for row in batch:
                yield Record.from_columns(dict(zip(COLUMNS, row, strict=True)))
