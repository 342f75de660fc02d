"""What an ablation found out: arms that differ in the seed alone are runs of one variant; variants are compared.

A run is one observation: Student's intervals and Welch's test are over the runs. A bootstrap that draws the tasks anew
says how much hangs on these tasks; of the two intervals the wider one counts, and of the two p-values the larger one.
p-values are corrected for the number of comparisons. A variant with one run has neither.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from numpy.typing import NDArray
from rich.table import Table

from kernelrl import __version__
from kernelrl.data.tables import read_table
from kernelrl.errors import UserError
from kernelrl.eval import metrics, plots
from kernelrl.eval import table as figures_table
from kernelrl.eval.figure import Figure, Settings
from kernelrl.eval.stage import RECORDS, RESULTS
from kernelrl.records import Ledger, write_atomically, write_json
from kernelrl.stage_folder import LOG, read_log
from kernelrl.stats import (
    Interval,
    holm,
    mean_difference,
    mean_interval,
    percentiles,
    ratio_interval,
    resampled_ratios,
    two_sided_p,
)
from kernelrl.task import Task

ARM = "arm.json"
"""File in the folder of an arm that has finished."""
FIGURES = ("legal", "correct", "fast_1", "speedup", "speedup_all")
"""Those that nobody measured are left out."""
TESTED = ("legal", "correct", "fast_1")
"""Figures whose differences are tested."""
SIGNIFICANT = 0.05
RESAMPLES = 20_000
"""So many that a hundred comparisons leave room for a corrected p-value below `SIGNIFICANT`."""
CURVES = (
    ("Correct completions", "correct", True),
    ("Legal completions", "legal", True),
    ("Reward (each variant's own)", "reward", False),
    ("Speedup of correct kernels, lower bound", "speedup_low", False),
    ("Groups without signal", "frac_reward_zero_std", True),
    ("Entropy", "entropy", False),
)
"""(title, key in the log, whether it is a rate)"""


@dataclass(frozen=True)
class Variant:
    """What one variant's runs came to on T tasks."""

    name: str
    seeds: list[int]
    """Of its runs; empty for the start, which is one policy."""
    figures: dict[str, list[Figure]]
    """Figure by name, for each run."""
    logs: list[list[dict[str, Any]]]
    """Entries of each run's GRPO log; empty for the start."""

    def measured(self, figure: str) -> Sums:
        """The figure in the S runs that measured it."""
        runs = [run for run in self.figures[figure] if run.counts_T.any()]
        return Sums(*(np.array([getattr(run, name) for run in runs]) for name in ("totals_T", "counts_T")))


@dataclass(frozen=True)
class Sums:
    """One figure of S runs: of each, on each of T tasks, the sum over the samples and their number."""

    totals_ST: NDArray[np.float64]
    counts_ST: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.totals_ST)

    def on(self, tasks_T: NDArray[np.bool_]) -> Sums:
        """The same on some of the tasks."""
        return Sums(self.totals_ST[:, tasks_T], self.counts_ST[:, tasks_T])

    def values_S(self) -> NDArray[np.float64]:
        """Each run's figure."""
        values_S: NDArray[np.float64] = self.totals_ST.sum(axis=1) / self.counts_ST.sum(axis=1)
        return values_S

    def resample(self, settings: Settings) -> NDArray[np.float64]:
        """(R,) means over the runs, with the tasks drawn anew."""
        return resampled_ratios(self.totals_ST, self.counts_ST, settings.bootstrap, settings.seed)


def compare_arms(output_dir: Path, start: str) -> dict[str, Any]:
    """Figures of the start and of every variant, and the differences between every two, as JSON.

    Args:
        output_dir: holds a folder for each arm, and `start`, the evaluation of the policy that all arms start from.

    Raises:
        UserError: no arm has finished.
    """
    arms = sorted(output_dir.glob(f"*/{ARM}"))
    if not arms:
        raise UserError(f"ablate: no arm has finished in {output_dir}")
    results = json.loads((output_dir / start / RESULTS).read_text())
    tasks = [Task.model_validate_json(row["task"]) for row in read_table(Path(results["eval"]["tasks"]), ["task"])]
    settings = Settings(k=(1,), fast_p=(1,), bootstrap=RESAMPLES, seed=0)
    variants = [_read_start(output_dir / start, tasks, settings), *_read_variants(arms, tasks, settings)]
    measured = [name for name in FIGURES if any(len(variant.measured(name)) for variant in variants)]
    comparisons = [
        found
        for before, after in combinations(variants, 2)
        for figure in TESTED
        if (found := difference(before, after, figure, settings)) is not None
    ]
    tested = [comparison for comparison in comparisons if comparison["p"] is not None]
    for comparison, p in zip(tested, holm([each["p"] for each in tested]), strict=True):
        comparison["p_corrected"] = p
    return {
        "name": results["name"],
        "tasks": len(tasks),
        "figures": measured,
        "variants": {
            variant.name: {
                "seeds": variant.seeds,
                "figures": {name: _estimate(variant, name, settings) for name in measured},
                "curves": {key: _curve(variant.logs, key) for _, key, _ in CURVES},
            }
            for variant in variants
        },
        "comparisons": comparisons,
        "version": __version__,
    }


def difference(before: Variant, after: Variant, figure: str, settings: Settings) -> dict[str, Any] | None:
    """The difference between two variants' means over runs, over the tasks that all runs of both measure, as JSON.

    The start counts as one run that spreads like those of the variant. A variant with one run has no interval and no p.

    Returns:
        `value`, `low`, `high` and `p` of the figure from `before` to `after`; None: there are no such tasks.
    """
    first, second = before.measured(figure), after.measured(figure)
    if not len(first) or not len(second):
        return None
    shared_T: NDArray[np.bool_] = np.vstack([first.counts_ST, second.counts_ST]).min(axis=0) > 0
    if not shared_T.any():
        return None
    first, second = first.on(shared_T), second.on(shared_T)
    found: dict[str, Any] = {"before": before.name, "after": after.name, "figure": figure}
    found["value"] = float(second.values_S().mean() - first.values_S().mean())
    if len(second) < 2 or (before.seeds and len(first) < 2):
        return found | dict.fromkeys(("low", "high", "p", "p_corrected"))
    over_runs, p_runs = mean_difference(second.values_S(), first.values_S())
    differences_R = second.resample(settings) - first.resample(settings)
    low, high = _wider(over_runs, percentiles(differences_R))
    return found | {"low": low, "high": high, "p": max(p_runs, two_sided_p(differences_R))}


def make_table(summary: Mapping[str, Any]) -> Table:
    """A row per variant; then which differences are more than chance."""
    table = Table(title=f"{summary['name']}: ablation, held-out tasks", caption=_caption(summary), title_justify="left")
    table.add_column("variant")
    for column in ("runs", *(figures_table.label(name) for name in summary["figures"])):
        table.add_column(column, justify="right")
    for name, variant in summary["variants"].items():
        cells = [figures_table.format_estimate(figure, estimate) for figure, estimate in variant["figures"].items()]
        table.add_row(name, str(len(variant["seeds"])), *cells)
    return table


def write(output_dir: Path, summary: Mapping[str, Any]) -> Path:
    """Write `ablation.json` and `ablation.html`; returns the latter."""
    write_json(output_dir / "ablation.json", summary)
    environment = Environment(
        loader=PackageLoader("kernelrl.eval", "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.globals.update(table=figures_table)
    page = environment.get_template("ablation.html.jinja").render(
        summary=summary, caption=_caption(summary), significant=SIGNIFICANT, plots=_plot(summary)
    )
    write_atomically(output_dir / "ablation.html", page)
    return output_dir / "ablation.html"


def _read_start(folder: Path, tasks: Sequence[Task], settings: Settings) -> Variant:
    (policy,) = json.loads((folder / RESULTS).read_text())["policies"]
    records = list(Ledger(folder / "eval" / policy / RECORDS))
    figures = metrics.compute_figures(records, tasks, settings)
    return Variant(policy, [], {name: [figure] for name, figure in figures.items()}, logs=[])


def _read_variants(arms: Sequence[Path], tasks: Sequence[Task], settings: Settings) -> list[Variant]:
    described = [json.loads(path.read_text()) for path in arms]
    common = set.intersection(*(set(arm["overrides"]) for arm in described))
    members: defaultdict[str, list[tuple[int, Path]]] = defaultdict(list)
    for path, arm in zip(arms, described, strict=True):
        varied = [word for word in arm["overrides"] if word not in common]
        members[", ".join(varied) or f"reward={arm['reward']}"].append((arm["seed"], path.parent))
    variants = []
    for name, runs in members.items():
        runs.sort()
        ledgers = [Ledger(folder / "eval" / "grpo" / RECORDS) for _, folder in runs]
        per_run = [metrics.compute_figures(list(ledger), tasks, settings) for ledger in ledgers]
        figures = {figure: [run[figure] for run in per_run] for figure in per_run[0]}
        logs = [read_log(folder / "grpo" / LOG) for _, folder in runs]
        variants.append(Variant(name, [seed for seed, _ in runs], figures, logs))
    return variants


def _estimate(variant: Variant, figure: str, settings: Settings) -> dict[str, float | None]:
    """The mean over the runs, geometric for speedups; of the start, which is one policy, the interval is over tasks."""
    runs = variant.measured(figure)
    if not len(runs):
        return dict.fromkeys(("value", "low", "high"))
    interval = (math.nan, math.nan)
    if not variant.seeds:
        totals_T, counts_T = runs.totals_ST[0], runs.counts_ST[0]
        interval = ratio_interval(totals_T, counts_T, resamples=settings.bootstrap, seed=settings.seed)
    elif len(runs) > 1:
        interval = _wider(mean_interval(runs.values_S()), percentiles(runs.resample(settings)))
    values = np.array([runs.values_S().mean(), *interval])
    values = np.exp(values) if variant.figures[figure][0].geometric else values
    names = ("value", "low", "high")
    return {name: None if np.isnan(value) else float(value) for name, value in zip(names, values, strict=True)}


def _wider(first: Interval, second: Interval) -> Interval:
    return max(first, second, key=lambda interval: interval[1] - interval[0])


def _curve(logs: Sequence[Sequence[Mapping[str, Any]]], key: str) -> list[tuple[int, float, float, float]]:
    """(step, mean, smallest, largest) over the runs that logged the key at that step."""
    by_step: defaultdict[int, list[float]] = defaultdict(list)
    for log in logs:
        for entry in log:
            if key in entry:
                by_step[entry["step"]].append(entry[key])
    return [(step, float(np.mean(values)), min(values), max(values)) for step, values in sorted(by_step.items())]


def _plot(summary: Mapping[str, Any]) -> list[Markup]:
    panels = []
    for title, key, is_rate in CURVES:
        lines = {name: variant["curves"][key] for name, variant in summary["variants"].items()}
        lines = {name: points for name, points in lines.items() if points}
        if lines:
            panels.append((title, lines, is_rate))
    rows = [panels[start : start + 3] for start in range(0, len(panels), 3)]
    estimates = {name: variant["figures"] for name, variant in summary["variants"].items()}
    forest = plots.forest(estimates, [(name, figures_table.label(name)) for name in summary["figures"]])
    return [Markup(forest), *(Markup(plots.bands(row, ", ".join(panel[0] for panel in row))) for row in rows)]


def _caption(summary: Mapping[str, Any]) -> str:
    alone = [name for name, variant in summary["variants"].items() if len(variant["seeds"]) == 1]
    text = (
        f"95 % intervals over the runs of each variant, or over the {summary['tasks']} tasks (bootstrap) where those "
        "are wider; of the start over tasks alone"
    )
    if not alone:
        return text
    return (
        f"{text}; {', '.join(alone)}: one run says nothing about other seeds, so no interval and no p-value; several "
        "seeds are needed, e.g. seed=0,1,2"
    )
