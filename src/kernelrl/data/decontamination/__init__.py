"""Decontamination: no training task is a task of a benchmark, however it is written.

Every training task is compared with every benchmark task, in five ways (`settings.KINDS`): `exact` (the source without
comments and layout), `ast` (the program by what it computes: `program.py`), `graph` (operator graphs isomorphic:
`trace.py`, `graph.py`), `near` (most token shingles shared: `near.py`), and `part` (a benchmark task among the
operators of a larger one: `parts.py`). Fingerprints of well-known benchmarks are always there (`known.py`).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from kernelrl.data.decontamination.inputs import Benchmark, read_benchmark, read_tasks
from kernelrl.data.decontamination.known import read_known
from kernelrl.data.decontamination.matching import Findings, Match, find
from kernelrl.data.decontamination.report import make_report
from kernelrl.data.decontamination.settings import Settings, deciding_settings, read_settings
from kernelrl.errors import UserError
from kernelrl.records import write_atomically, write_json
from kernelrl.task import Task

__all__ = [
    "Benchmark",
    "Findings",
    "Match",
    "Settings",
    "apply",
    "compare",
    "deciding_settings",
    "find",
    "read_benchmark",
    "read_settings",
    "read_tasks",
    "write",
]

log = logging.getLogger(__name__)
REPORT, KEPT, DROPPED = "contamination.json", "tasks.jsonl", "contaminated.jsonl"


def apply(
    tasks: Sequence[Task], benchmarks: Sequence[Benchmark], cfg: DictConfig, folder: Path
) -> tuple[list[Task], dict[str, Any]]:
    """Take the contaminated tasks out of a training set.

    Args:
        tasks: of the training set; rows of one id have one source.
        benchmarks: what the caller has, e.g. its held-out tasks; those that `cfg.benchmarks` names are added.
        cfg: the node `decontamination` of the config.
        folder: gets `contamination.json` (the report) and `contaminated.jsonl` (the dropped tasks).

    Returns:
        The tasks to keep, in their order, and the report (`report.make_report`).

    Raises:
        UserError: a setting, a benchmark's path or format, two benchmarks of one name, two programs of one id.
    """
    kept, report = compare(tasks, benchmarks, cfg)
    write(folder, tasks, report)
    return kept, report


def compare(
    tasks: Sequence[Task], benchmarks: Sequence[Benchmark], cfg: DictConfig
) -> tuple[list[Task], dict[str, Any]]:
    """What `apply` does, without writing anything."""
    settings = read_settings(cfg)
    every = [*benchmarks, *(read_benchmark(path) for path in settings.benchmarks)]
    every += _known(settings, {benchmark.name for benchmark in every})
    if repeated := [name for name, count in Counter(it.name for it in every).items() if count > 1]:
        raise UserError(f"two benchmarks are named {repeated[0]!r}; rename a file or folder")
    distinct: dict[str, Task] = {}
    for task in tasks:
        if distinct.setdefault(task.id, task).source != task.source:
            raise UserError(
                f"two training tasks with different programs are named {task.id!r}; give each an id of its own"
            )
    findings = find(list(distinct.values()), every, settings)
    kept = [task for task in tasks if task.id not in findings.dropped]
    return kept, make_report(len(distinct), every, findings, settings)


def _known(settings: Settings, given: Collection[str]) -> list[Benchmark]:
    """The benchmarks whose fingerprints come with kernelrl; those that are given as they are come first.

    Raises:
        UserError: there are no fingerprints of one that `known` names.
    """
    header, benchmarks = read_known()
    names = {benchmark.name: benchmark for benchmark in benchmarks}
    for name in settings.known:
        if name not in names:
            raise UserError(f"decontamination.known: no fingerprints of {name!r}; there are {', '.join(names)}")
    wanted = [names[name] for name in settings.known if name not in given]
    if (settings.shingle, settings.permutations) == (header["shingle"], header["permutations"]):
        return wanted
    log.warning("decontamination.shingle or permutations differ from known benchmarks': no near-duplicates of those")
    return [
        replace(each, fingerprints=tuple(replace(it, signature=None) for it in each.fingerprints or ()))
        for each in wanted
    ]


def write(folder: Path, tasks: Sequence[Task], report: dict[str, Any], kept: Sequence[Task] | None = None) -> None:
    """Write the report, the tasks to drop, and where they are given those to keep, as one `Task` in JSON per line."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / REPORT, report)
    dropped = {match["task"] for match in report["matches"] if match["drop"]}
    _write_tasks(folder / DROPPED, [task for task in tasks if task.id in dropped])
    if kept is not None:
        _write_tasks(folder / KEPT, kept)


def _write_tasks(path: Path, tasks: Sequence[Task]) -> None:
    write_atomically(path, "".join(task.model_dump_json() + "\n" for task in tasks))
