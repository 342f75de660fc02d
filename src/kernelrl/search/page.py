"""Searches side by side: the table in the terminal, and the page with their curves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from rich.table import Table

from kernelrl import __version__
from kernelrl.console import make_console
from kernelrl.errors import UserError
from kernelrl.eval import plots
from kernelrl.eval import table as figures_table
from kernelrl.records import write_atomically, write_json
from kernelrl.search.figures import UNITS, estimates, final_logs
from kernelrl.search.screen import cells
from kernelrl.stats import RESAMPLES, holm, percentiles, resampled_ratios, two_sided_p

RESULTS = "results.json"
PAGE = "search.html"
COMPARISON = "search.json"
SIGNIFICANT = 0.05
LABELS = {
    "completions": "completions",
    "tokens": "tokens",
    "candidates": "candidates",
    "device_seconds": "executor, s",
    "cost": "money",
}

Searches = Mapping[str, Mapping[str, Any]]
"""Name -> content of its `results.json`."""


def make_task_table(results: Mapping[str, Any]) -> Table:
    """The best kernel per task, and what it cost."""
    table = Table(title=f"{results['name']}: {results['strategy']['name']}", title_justify="left")
    for column in ("task", "best speedup", "turn", "attempts", "right", *(LABELS[unit] for unit in UNITS)):
        table.add_column(column, justify="left" if column == "task" else "right", overflow="fold")
    for task, found in results["tasks"].items():
        best = found["best"]
        right = sum(status == "correct" for status in found["attempts"])
        cells = [str(len(found["attempts"])), str(right), *(_amount(found["spent"][unit]) for unit in UNITS)]
        table.add_row(task, _best(found), "–" if best is None else str(best["turn"]), *cells)
    table.add_section()
    table.add_row(*["all", *_row(results)[:1], "", "", "", *_row(results)[2:]])
    return table


def finish(output_dir: str | Path) -> Path:
    """Compare all searches of a sweep: a table in the terminal, `search.json` and `search.html`.

    Raises:
        UserError: none has finished.
    """
    folder = Path(output_dir)
    found = {path.parents[1].name: json.loads(path.read_text()) for path in sorted(folder.glob(f"*/search/{RESULTS}"))}
    if not found:
        raise UserError(f"search: none has finished in {folder}")
    table = Table(title=f"{folder.name}: searches, {_caption(found)}", title_justify="left")
    table.add_column("search")
    for column in _columns():
        table.add_column(column, justify="right")
    for name, results in found.items():
        table.add_row(name, *_row(results))
    make_console().print(table)
    write_json(folder / COMPARISON, {"searches": found, "differences": _differences(found)})
    return write(folder / PAGE, folder.name, found)


def write(path: Path, name: str, searches: Searches) -> Path:
    """Write the page of one search or of several on the same tasks."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader("kernelrl.search", "."), PackageLoader("kernelrl.eval", ".")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    environment.globals.update(table=figures_table)
    page = environment.get_template("page.html.jinja").render(
        name=name,
        caption=_caption(searches),
        plot=Markup(plot(searches)),
        columns=_columns(),
        rows={search: _row(results) for search, results in searches.items()},
        differences=_differences(searches),
        significant=SIGNIFICANT,
        filters={name: cells(found) for name, it in searches.items() if (found := it.get("filter"))},
        tasks=_by_task(searches),
        version=__version__,
    )
    write_atomically(path, page)
    return path


def plot(searches: Searches) -> str:
    """The curves of searches, by the number of candidates per task."""
    panels = [
        (title, {name: [(p["attempts"], p[key]) for p in results["curve"]] for name, results in searches.items()}, rate)
        for title, key, rate in (
            ("Tasks with a right kernel", "solved", True),
            ("Best speedup, all tasks", "speedup", False),
        )
    ]
    shown = [(title, {name: points for name, points in lines.items() if points}, rate) for title, lines, rate in panels]
    return plots.curves(shown, "Best kernels by budget", xlabel="candidates per task")


def _columns() -> list[str]:
    return ["solved", figures_table.label("speedup_all"), *(LABELS[unit] for unit in UNITS)]


def _row(results: Mapping[str, Any]) -> list[str]:
    found = results["estimates"]
    return [
        *(figures_table.format_estimate(name, found[name]) for name in ("solved", "speedup_all")),
        *(_amount(results["spent"][unit]) for unit in UNITS),
    ]


def _amount(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def _best(found: Mapping[str, Any]) -> str:
    best = found["best"]
    if best is None:
        return "–"
    speedup = best["speedup"]
    return "right" if speedup is None else f"{speedup['median']:.2f} [{speedup['low']:.2f}, {speedup['high']:.2f}]"


def _by_task(searches: Searches) -> dict[str, list[str]]:
    tasks = dict.fromkeys(task for results in searches.values() for task in results["tasks"])
    return {
        task: [_best(results["tasks"][task]) if task in results["tasks"] else "" for results in searches.values()]
        for task in tasks
    }


def _caption(searches: Searches) -> str:
    some = next(iter(searches.values()))
    limits = ", ".join(f"{value:g} {LABELS[unit]}" for unit, value in some["budget"].items() if value is not None)
    return f"{len(some['tasks'])} tasks, {limits or 'no limit'} per task; 95 % bootstrap intervals over tasks"


def _differences(searches: Searches) -> list[dict[str, Any]]:
    """Between every two searches on the same tasks, with corrected p-values."""
    found: list[dict[str, Any]] = []
    for (before, first), (after, second) in combinations(searches.items(), 2):
        if first["tasks"].keys() != second["tasks"].keys():
            continue
        for figure in ("solved", "speedup_all"):
            rows = [_values(each["tasks"], figure) for each in (first, second)]
            draws = [resampled_ratios([row], [np.ones(len(row))], RESAMPLES, seed=0) for row in rows]
            low, high = percentiles(draws[1] - draws[0])
            value = float(np.mean(rows[1]) - np.mean(rows[0]))
            change = {"value": value, "low": low, "high": high}
            if figure == "speedup_all":
                change = {name: float(np.exp(number)) for name, number in change.items()}
            p = two_sided_p(draws[1] - draws[0])
            found.append({"before": before, "after": after, "figure": figure, "log": value, **change, "p": p})
    for difference, p in zip(found, holm([each["p"] for each in found]), strict=True):
        difference["p_corrected"] = p
    return found


def _values(tasks: Mapping[str, Any], figure: str) -> list[float]:
    logs = final_logs(dict(tasks))
    return [float(log is not None) if figure == "solved" else log or 0.0 for log in logs]


def summarize(tasks: dict[str, Any], seed: int) -> dict[str, dict[str, float | None]]:
    """The estimates of one search."""
    return estimates(tasks, RESAMPLES, seed)
