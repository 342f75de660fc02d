"""The Parquet files of a curated data set: written atomically, read with their columns checked."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kernelrl.errors import UserError
from kernelrl.records import write_atomically


def write_table(path: Path, rows: Sequence[dict[str, Any]], columns: pa.Schema) -> None:
    """Write rows as one Parquet file; a reader sees the old file or the whole new one."""
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows), schema=columns), buffer)
    write_atomically(path, buffer.getvalue())


def read_table(path: Path, columns: Sequence[str]) -> list[dict[str, Any]]:
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
    rows: list[dict[str, Any]] = pq.read_table(path, columns=list(columns)).to_pylist()
    if not rows:
        raise UserError(f"data set {path}: it has no rows")
    return rows
