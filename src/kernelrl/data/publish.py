"""A data set folder before it is published: it is what was curated, and `datasets` can stream it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
from huggingface_hub import DatasetCard

from kernelrl.data.manifest import MANIFEST
from kernelrl.errors import UserError
from kernelrl.records import digest
from kernelrl.stage_folder import is_done


def is_data_set(folder: Path) -> bool:
    """Whether a folder is a data set that curation has finished."""
    return (folder / MANIFEST).exists() and is_done(folder)


def publishable(folder: Path) -> Iterator[tuple[str, str, int]]:
    """Name, split and number of rows of every table that the card names, each streamed from once.

    Raises:
        UserError: a file is missing or has changed since the manifest was written, or a table cannot be streamed.
    """
    import datasets  # seconds: only where it is needed

    files: dict[str, str] = json.loads((folder / MANIFEST).read_text())["files"]
    for name, expected in files.items():
        if not (folder / name).is_file() or digest(folder / name) != expected:
            raise UserError(
                f"{folder}: {name} is not what {MANIFEST} says it is, so nobody could tell what it was made from; "
                "delete the folder and run kernelrl curate again"
            )
    for config in DatasetCard.load(folder / "README.md").data.configs:
        for part in config["data_files"]:
            table = folder / part["path"]
            try:
                rows = datasets.load_dataset("parquet", data_files=str(table), split="train", streaming=True)
                next(iter(rows))
            except Exception as error:  # every builder and file system has its own
                raise UserError(f"{table}: datasets cannot stream it ({str(error).splitlines()[0]})") from None
            yield config["config_name"], part["split"], pq.read_metadata(table).num_rows
