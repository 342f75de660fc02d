"""The contamination report: what was compared with what, what matched, what was dropped, and what was not looked at.

The matches themselves are not in it but in a file beside it, a line each: of a million tasks there are many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from rich.table import Table

from kernelrl import __version__
from kernelrl.data.decontamination.inputs import Benchmark
from kernelrl.data.decontamination.known import read_known
from kernelrl.data.decontamination.matching import Match, Untraced
from kernelrl.data.decontamination.settings import KINDS, Kind, Settings

TRAIN = "train"
NUM_SHOWN = 30
"""Matches in the terminal's table; the file holds all."""


class Tally:
    """Counts the matches of training tasks with one benchmark, task by task."""

    def __init__(self, benchmark: Benchmark):
        self._benchmark = benchmark
        self._by_kind = Counter[Kind]()
        self._matched: set[str] = set()
        self._dropped = 0
        self.own = 0
        """Matches of tasks that were taken from the benchmark on purpose."""

    def add(self, matches: Sequence[Match]) -> None:
        """Count the matches of one training task; those with other benchmarks are left out."""
        mine = [match for match in matches if match.benchmark == self._benchmark.name]
        if mine:
            self._by_kind[min((match.kind for match in mine), key=KINDS.index)] += 1
            self._matched |= {match.benchmark_task for match in mine}
            self._dropped += any(match.drop for match in mine)
            self.own += sum(match.own for match in mine)

    def entry(self) -> dict[str, Any]:
        """Of the report, as JSON values."""
        return {
            "name": self._benchmark.name,
            "path": self._benchmark.path,
            "tasks": len(self._benchmark.tasks),
            "tasks_matched": len(self._matched),
            "matched_by_kind": {kind: self._by_kind[kind] for kind in KINDS},
            "dropped": self._dropped,
        }


def make_report(
    num_tasks: int,
    num_matched: int,
    num_dropped: int,
    tallies: Mapping[str, Tally],
    untraced: Untraced,
    settings: Settings,
) -> dict[str, Any]:
    """The report as JSON values; `docs/data-decontamination.md` explains the fields.

    Args:
        tallies: by the benchmark's name.
    """
    return {
        "version": __version__,
        "tasks": num_tasks,
        "matched": num_matched,
        "dropped": num_dropped,
        "benchmarks": [tally.entry() for tally in tallies.values()],
        "notes": list(_notes(settings, {name: tally.own for name, tally in tallies.items() if tally.own})),
        "untraced": {
            name: {task: why for (owner, task), why in untraced.items() if owner == name} for name in [TRAIN, *tallies]
        },
        "settings": settings.model_dump(mode="json", exclude={"workers", "cache_dir"}),
    }


def summary_table(report: dict[str, Any]) -> Table:
    """One line per benchmark: how many training tasks match it, by kind."""
    table = Table(title=f"{report['tasks']} training tasks: {report['matched']} match, {report['dropped']} to drop")
    table.add_column("benchmark")
    for column in ("tasks", *KINDS, "to drop", "not traced"):
        table.add_column(column, justify="right")
    for entry in report["benchmarks"]:
        counts = [str(entry["matched_by_kind"][kind]) for kind in KINDS]
        untraced = len(report["untraced"][entry["name"]])
        table.add_row(entry["name"], str(entry["tasks"]), *counts, str(entry["dropped"]), str(untraced))
    table.caption = "; ".join([*report["notes"], f"{len(report['untraced'][TRAIN])} training tasks not traced"])
    return table


def match_table(matches: Sequence[Mapping[str, Any]]) -> Table:
    """The first matches (fields of `Match`), those to drop before the others."""
    matches = sorted(matches, key=lambda match: not match["drop"])
    table = Table(title=None if len(matches) <= NUM_SHOWN else f"the first {NUM_SHOWN} of {len(matches)} matches")
    for column in ("training task", "benchmark", "its task", "kind"):
        table.add_column(column, overflow="fold")
    for column in ("score", "operators", "sizes"):
        table.add_column(column, justify="right")
    table.add_column("")
    for match in matches[:NUM_SHOWN]:
        table.add_row(
            match["task"],
            match["benchmark"],
            match["benchmark_task"],
            match["kind"],
            f"{match['score']:.2f}",
            "–" if match["operators"] is None else str(match["operators"]),
            "same" if match["same_sizes"] else "other",
            "[red]drop[/]" if match["drop"] else "report",
        )
    return table


def _notes(settings: Settings, own: Mapping[str, int]) -> Iterator[str]:
    known, _ = read_known()
    if settings.known:
        yield (
            f"{', '.join(settings.known)}: by the fingerprints that come with kernelrl (operator graphs of torch "
            f"{known['torch']}, here {torch.__version__})"
        )
    if missing := [name for name in known["revisions"] if name not in settings.known]:
        yield f"not compared: {', '.join(missing)}"
    if own:
        trained = ", ".join(f"{count} matches with {name}" for name, count in own.items())
        yield f"the training set itself is taken from a known benchmark, and kept: {trained}"
    if settings.sizes:
        yield "sizes are compared: the same program with other shapes or numbers is no match"
    else:
        yield "sizes are ignored: the same operators with other shapes or numbers match"
        if settings.min_operators > 1:
            yield (
                f"a match of fewer than {settings.min_operators} operators with other sizes is common-place: "
                "reported, not dropped"
            )
    if left_out := [kind for kind in KINDS if kind not in settings.kinds]:
        yield f"not looked for: {', '.join(left_out)}"
