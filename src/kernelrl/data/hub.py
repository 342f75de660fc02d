"""Rows of a data set in a published form: a name on the hub, a local copy of its folder, or one file of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kernelrl.data.tables import ROWS_AT_ONCE, decode
from kernelrl.errors import UserError

_HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
_FORMATS = {".parquet": "parquet", ".json": "json", ".jsonl": "json"}


def read_rows(
    path: str, columns: Sequence[str], what: str, skip: Callable[[str], None], revision: str | None = None
) -> Iterator[dict[str, Any]]:
    """The rows of all splits, through `datasets`.

    Args:
        path: `ORGANISATION/NAME`, a folder, or a .parquet, .json or .jsonl file.
        columns: those that must be there; others come with them.
        what: what to give instead, for the error.
        skip: told where a row is that holds text that is not valid UTF-8, which is left out.
        revision: branch, tag or commit of a data set on the hub; None: its main branch.

    Raises:
        UserError: nothing can be read there, or columns are missing (named).
    """
    import datasets  # seconds: only where it is needed

    local = Path(path).expanduser()
    if not local.exists() and (local.suffix in _FORMATS or not _HUB_NAME.fullmatch(path)):
        raise UserError(f"tasks.path={path}: no such file or folder; give {what}")
    try:
        if local.is_file():
            splits = datasets.load_dataset(_FORMATS.get(local.suffix, "parquet"), data_files=str(local))
        else:
            there = {"path": str(local)} if local.is_dir() else {"path": path, "revision": revision}
            splits = datasets.load_dataset(**there)
    except Exception as error:  # every builder, file system and network library has its own
        reason = str(error.__cause__ or error).strip().partition("\n")[0]
        place = "no data set" if local.exists() else "no file, no folder, and no data set that the hub gives"
        raise UserError(f"tasks.path={path}: {place} ({reason}); give {what}") from None
    for name, split in splits.items():
        if missing := [column for column in columns if column not in split.column_names]:
            raise UserError(
                f"tasks.path={path}: column(s) {', '.join(missing)} missing in split {name}; "
                f"it has {', '.join(split.column_names)}"
            )
        rows = (row for table in split.with_format("arrow").iter(ROWS_AT_ONCE) for row in decode(table))
        for number, row in enumerate(rows):
            if row is None:
                skip(f"{path}: row {number} of split {name}")
            else:
                yield row
