"""Decontamination: no training task is a task of a benchmark, however it is written.

Every training task is compared with every benchmark task, in five ways (`settings.KINDS`): `exact` (the source without
comments and layout), `ast` (the program by what it computes: `data/program.py`), `graph` (operator graphs isomorphic:
`trace.py`, `graph.py`), `near` (most token shingles shared: `near.py`), and `part` (a benchmark task among the
operators of a larger one: `parts.py`). Fingerprints of well-known benchmarks are always there (`known.py`).
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from kernelrl.data.decontamination.inputs import Benchmark, read_benchmark, read_tasks
from kernelrl.data.decontamination.known import read_known
from kernelrl.data.decontamination.matching import Match, Untraced, find
from kernelrl.data.decontamination.report import Tally, make_report
from kernelrl.data.decontamination.settings import Settings, deciding_settings, read_settings
from kernelrl.data.disk_map import DiskMap
from kernelrl.data.tables import CONTAMINATION as REPORT
from kernelrl.data.tables import MATCHES
from kernelrl.errors import UserError
from kernelrl.records import write_json
from kernelrl.task import Task

__all__ = [
    "MATCHES",
    "REPORT",
    "Benchmark",
    "Match",
    "Settings",
    "apply",
    "deciding_settings",
    "find",
    "read_benchmark",
    "read_settings",
    "read_tasks",
    "write_tasks",
]

log = logging.getLogger(__name__)
DROPPED = "contaminated.jsonl"


def apply(
    tasks: Collection[Task], benchmarks: Sequence[Benchmark], cfg: DictConfig, folder: Path
) -> tuple[set[str], dict[str, Any]]:
    """Find the contaminated tasks of a training set. In memory are the benchmarks, and the ids of those tasks.

    Args:
        tasks: of the training set, iterated over several times; rows of one id have one source.
        benchmarks: what the caller has, e.g. its held-out tasks; those that `cfg.benchmarks` names are added.
        cfg: the node `decontamination` of the config.
        folder: gets `contamination.json` (the report), `matches.jsonl` (every match, as the fields of `Match`) and
            `contaminated.jsonl` (the tasks to drop).

    Returns:
        Ids of the tasks to drop, and the report (`report.make_report`).

    Raises:
        UserError: a setting, a benchmark's path or format, two benchmarks of one name, two programs of one id.
    """
    settings = read_settings(cfg)
    every = [*benchmarks, *(read_benchmark(path) for path in settings.benchmarks)]
    every += _known(settings, {benchmark.name for benchmark in every})
    if repeated := [name for name, count in Counter(it.name for it in every).items() if count > 1]:
        raise UserError(f"two benchmarks are named {repeated[0]!r}; rename a file or folder")
    programs: DiskMap[str] = DiskMap()
    for task in tasks:
        if programs.setdefault(task.id, task.digest) != task.digest:
            raise UserError(
                f"two training tasks with different programs are named {task.id!r}; give each an id of its own"
            )
    tallies = {benchmark.name: Tally(benchmark) for benchmark in every}
    untraced: Untraced = {}
    dropped: set[str] = set()
    num_matched = 0
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / MATCHES, "w") as file:
        for id, found in groupby(find(tasks, every, settings, untraced), key=lambda match: match.task):
            matches = list(found)
            num_matched += 1
            dropped |= {id} if any(match.drop for match in matches) else set()
            file.writelines(json.dumps(vars(match)) + "\n" for match in matches)
            for tally in tallies.values():
                tally.add(matches)
    report = make_report(len(programs), num_matched, len(dropped), tallies, untraced, settings)
    write_json(folder / REPORT, report)
    write_tasks(folder / DROPPED, (task for task in tasks if task.id in dropped))
    return dropped, report


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


def write_tasks(path: Path, tasks: Iterable[Task]) -> None:
    """Write one `Task` in JSON per line."""
    with open(path, "w") as file:
        file.writelines(task.model_dump_json() + "\n" for task in tasks)
