"""Curation in shards: any number of machines each verify a share of the tasks, and `merge` makes one folder of them.

`curate.shard=2/8` takes every eighth task from the second on. Each shard keeps its training tasks apart from the
held-out tasks of all, so that nothing leaks when they are put together.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

from kernelrl.data.build import DROPPED
from kernelrl.data.sources import TaskSplit
from kernelrl.data.tables import (
    CONTAMINATION,
    DRAWN_COLUMNS,
    MATCHES,
    PROPOSAL_COLUMNS,
    PROPOSALS,
    TASKS,
    Row,
    iterate_table,
    write_table,
)
from kernelrl.errors import UserError
from kernelrl.records import shards as ledger_files
from kernelrl.records import write_json
from kernelrl.stage_folder import is_done, open_stage, read_figures


@dataclass(frozen=True)
class Shard:
    """One of `count` shares, from 1 on."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str | None) -> Shard | None:
        """`2/8`; None: the whole.

        Raises:
            UserError: it is not such a share.
        """
        if text is None:
            return None
        found = re.fullmatch(r"(\d+)/(\d+)", str(text))
        if not found or not 1 <= int(found[1]) <= int(found[2]):
            raise UserError(f"curate.shard={text}: give the number of the share and how many there are, e.g. 2/8")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def folder(self, verified: Path) -> Path:
        """Where it keeps its proposals, below the folder of the whole."""
        return verified / f"shard-{self.number}-of-{self.count}"

    def of(self, wanted: int | None) -> int | None:
        """Its share of a number; the shares of all shards add up to it."""
        return None if wanted is None else wanted // self.count + (self.number <= wanted % self.count)

    def split(self, whole: TaskSplit) -> TaskSplit:
        """Its share of the tasks."""
        train, heldout = (tasks[self.number - 1 :: self.count] for tasks in (whole.train, whole.heldout))
        num_train, num_heldout = self.of(whole.num_train), self.of(whole.num_heldout)
        return replace(whole, train=train, heldout=heldout, num_train=num_train, num_heldout=num_heldout)


def merge(verified: Path, settings: Mapping[str, Any]) -> Path:
    """Make the folder of all proposals from those of its shards, which stay. Returns it.

    Args:
        verified: the folder of the whole, which holds those of the shards.
        settings: of the whole: every shard must have been made with them.

    Raises:
        UserError: there are no shards, one is missing or not finished, or was made with other settings.
    """
    folders = _find(verified, settings)
    with open_stage("curate", verified, settings) as stage:
        if stage.done:
            return stage.path
        write_table(stage.path / TASKS, _rows(folders, TASKS), DRAWN_COLUMNS)
        write_table(stage.path / PROPOSALS, _rows(folders, PROPOSALS), PROPOSAL_COLUMNS)
        for name in (DROPPED, MATCHES):
            _join([folder / name for folder in folders if (folder / name).exists()], stage.path / name)
        for folder in folders:
            for file in ledger_files(folder / "records"):
                (stage.path / "records").mkdir(exist_ok=True)
                shutil.copy(file, stage.path / "records" / f"{folder.name}-{file.name}")
        reports = [
            json.loads((folder / CONTAMINATION).read_text()) for folder in folders if (folder / CONTAMINATION).exists()
        ]
        if reports:
            write_json(stage.path / CONTAMINATION, _merge_reports(reports))
        figures = [read_figures(folder) for folder in folders]
        stage.finish(reduce(_add, figures) | {"source_skipped": figures[0]["source_skipped"], "shards": len(folders)})
        return stage.path


def _find(verified: Path, settings: Mapping[str, Any]) -> list[Path]:
    """The folders of all shards, in order."""
    names = [re.fullmatch(r"shard-(\d+)-of-(\d+)", path.name) for path in verified.glob("shard-*")]
    counts = sorted({int(name[2]) for name in names if name})
    if not counts:
        raise UserError(f"curate merge: no shards in {verified}; run kernelrl curate … curate.shard=1/8 first")
    if len(counts) > 1:
        raise UserError(f"curate merge: {verified} holds shards of {' and of '.join(map(str, counts))}; delete some")
    every = [Shard(number, counts[0]) for number in range(1, counts[0] + 1)]
    missing = [str(shard) for shard in every if not is_done(shard.folder(verified))]
    if missing:
        raise UserError(
            f"curate merge: {', '.join(missing)} of {verified} not finished; run the same command with "
            f"curate.shard={missing[0]}"
        )
    for shard in every:
        with open_stage("curate", shard.folder(verified), {**settings, "shard": str(shard)}):
            pass  # it compares the settings
    return [shard.folder(verified) for shard in every]


def _join(files: list[Path], path: Path) -> None:
    with open(path, "wb") as joined:
        for file in files:
            with open(file, "rb") as opened:
                shutil.copyfileobj(opened, joined)


def _rows(folders: list[Path], name: str) -> Iterator[Row]:
    for folder in folders:
        yield from iterate_table(folder / name)


def _merge_reports(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """The contamination reports of all shards as one."""
    fixed = {key: reports[0][key] for key in ("version", "notes", "settings") if key in reports[0]}
    entries: dict[str, dict[str, Any]] = {}
    for report in reports:
        for entry in report["benchmarks"]:
            known = entries.get(entry["name"])
            same = {key: entry[key] for key in ("name", "path", "tasks")}
            entries[entry["name"]] = entry if known is None else _add(known, entry) | same
    total = reduce(_add, ({key: report[key] for key in report if key != "benchmarks"} for report in reports))
    return total | fixed | {"benchmarks": list(entries.values())}


def _add(a: Any, b: Any) -> Any:
    """Two summaries as one: numbers add up, lists are joined, and what is not known to one is not known."""
    if isinstance(a, dict) and isinstance(b, dict):
        return {key: _add(a[key], b[key]) if key in a and key in b else a.get(key, b.get(key)) for key in {**a, **b}}
    if isinstance(a, list) and isinstance(b, list):
        return a + [each for each in b if each not in a]
    if isinstance(a, int | float) and isinstance(b, int | float):
        return a + b
    return a if a == b else None
