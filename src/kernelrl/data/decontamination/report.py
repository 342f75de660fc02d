"""The contamination report: what was compared with what, what matched, what was dropped, and what was not looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from rich.table import Table

from kernelrl import __version__
from kernelrl.data.decontamination.inputs import Benchmark
from kernelrl.data.decontamination.known import read_known
from kernelrl.data.decontamination.matching import Findings, Match
from kernelrl.data.decontamination.settings import KINDS, Settings

TRAIN = "train"
NUM_SHOWN = 30
"""Matches in the terminal's table; the JSON holds all."""


def make_report(
    num_tasks: int, benchmarks: Sequence[Benchmark], findings: Findings, settings: Settings
) -> dict[str, Any]:
    """The report as JSON values; `docs/data-decontamination.md` explains the fields."""
    matches = findings.matches
    return {
        "version": __version__,
        "tasks": num_tasks,
        "matched": len({match.task for match in matches}),
        "dropped": len(findings.dropped),
        "benchmarks": [_benchmark(benchmark, matches) for benchmark in benchmarks],
        "notes": list(_notes(settings, findings)),
        "untraced": {
            name: {task: why for (owner, task), why in findings.untraced.items() if owner == name}
            for name in dict.fromkeys([TRAIN, *(benchmark.name for benchmark in benchmarks)])
        },
        "settings": settings.model_dump(mode="json", exclude={"workers", "cache_dir"}),
        "matches": [dict(vars(match)) for match in matches],
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


def match_table(report: dict[str, Any]) -> Table:
    """The first matches, those to drop before the others."""
    matches = sorted(report["matches"], key=lambda match: not match["drop"])
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


def _benchmark(benchmark: Benchmark, matches: Sequence[Match]) -> dict[str, Any]:
    own = [match for match in matches if match.benchmark == benchmark.name]
    strongest: dict[str, str] = {}
    for kind in KINDS:
        for match in own:
            if match.kind == kind:
                strongest.setdefault(match.task, kind)
    counts = Counter(strongest.values())
    return {
        "name": benchmark.name,
        "path": benchmark.path,
        "tasks": len(benchmark.tasks),
        "tasks_matched": len({match.benchmark_task for match in own}),
        "matched_by_kind": {kind: counts[kind] for kind in KINDS},
        "dropped": len({match.task for match in own if match.drop}),
    }


def _notes(settings: Settings, findings: Findings) -> Iterator[str]:
    known, _ = read_known()
    if settings.known:
        yield (
            f"{', '.join(settings.known)}: by the fingerprints that come with kernelrl (operator graphs of torch "
            f"{known['torch']}, here {torch.__version__})"
        )
    if missing := [name for name in known["revisions"] if name not in settings.known]:
        yield f"not compared: {', '.join(missing)}"
    if own := Counter(match.benchmark for match in findings.matches if match.own):
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
