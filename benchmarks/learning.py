"""Does it learn? Runs base -> SFT -> GRPO for several seeds at demo scale and prints a table with 95 % intervals.

The interval of one run resamples its tasks, and says nothing about other seeds. What is claimed rests on the last rows:
there a run is one observation, and the interval of the mean over runs is Student's.

    python benchmarks/learning.py                          # three seeds, a quarter of an hour each on two cores
    python benchmarks/learning.py --seeds 0 1 sft.trainer.max_steps=200

The quotient of the speedups is over the tasks that both policies solve, each with the weight of one; `speedup_all` is
over all samples, with failures counted as 1.

A seed decides the tasks, the split, the weights and the sampling. Runs go to FOLDER/SEED; the same command resumes, and
seeds that have finished are only read. FOLDER/learning.json holds the table. Exits with 1 where a claim does not hold.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from rich.table import Table

from kernelrl.configs import compose_config
from kernelrl.console import make_console
from kernelrl.data.tables import read_table
from kernelrl.eval.figure import Figure, Settings
from kernelrl.eval.metrics import compute_figures
from kernelrl.eval.table import is_speedup
from kernelrl.records import Ledger, write_json
from kernelrl.stage_folder import LOG, read_log
from kernelrl.stats import mean_interval
from kernelrl.task import Task

POLICIES = ("base", "sft", "grpo")
FIGURES = ("parsed", "compiled", "correct", "fast_1", "speedup", "speedup_all", "reward")
SIGNALS = ("entropy", "silent_groups", "nearly_silent_groups")
"""Of GRPO's log: what is left to learn from."""
SETTINGS = Settings(k=(1,), fast_p=(1.0,), bootstrap=10_000, seed=0)
MARGIN = 0.10
"""GRPO's correct rate must exceed SFT's by this much, in the mean over runs."""
FASTER = 1.1
"""GRPO's kernels must be so many times as fast as SFT's on the tasks that both solve, in each run and in their mean."""
SFT_RIGHT = (0.2, 0.75)
"""Where SFT must leave GRPO, so that it has both right kernels and room."""
ALL = "all runs"
CHANGE = "grpo - sft"
"""For the speedup: the quotient."""

Estimate = dict[str, float | None]
Run = dict[str, dict[str, Figure]]
"""Figures by policy and name."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--recipe", default="demo")
    parser.add_argument("--folder", default="outputs/learning")
    parser.add_argument("overrides", nargs="*", help="Hydra overrides")
    arguments = parser.parse_intermixed_args()

    runs: dict[str, Run] = {}
    folders: dict[str, Path] = {}
    for seed in arguments.seeds:
        folder = f"output_dir={arguments.folder}/{seed}"
        words = [f"recipe={arguments.recipe}", f"seed={seed}", folder, *arguments.overrides]
        subprocess.run([sys.executable, "-m", "kernelrl.cli", "pipeline", *words], check=True)
        runs[f"seed {seed}"] = _read_run(words)
        folders[f"seed {seed}"] = Path(compose_config("pipeline", words).grpo.folder)
    rows = {
        name: {
            **{policy: {figure: run[policy][figure].estimate(SETTINGS) for figure in FIGURES} for policy in POLICIES},
            CHANGE: {figure: run["grpo"][figure].change_from(run["sft"][figure], SETTINGS) for figure in FIGURES},
        }
        for name, run in runs.items()
    }
    rows[ALL] = {
        line: {figure: over_runs(figure, [row[line][figure] for row in rows.values()]) for figure in FIGURES}
        for line in (*POLICIES, CHANGE)
    }
    signals = {name: _read_signals(folder) for name, folder in folders.items()}
    claims = _check(rows)
    make_console().print(_table(rows))
    for name, changes in signals.items():
        print(
            f"{name}, GRPO's first and last quarter:", ", ".join(f"{key} {a:.2f} to {b:.2f}" for key, (a, b) in changes)
        )
    for claim, holds in claims.items():
        print("yes" if holds else "NO ", claim)
    write_json(
        Path(arguments.folder) / "learning.json",
        {"figures": rows, "signals": {name: dict(changes) for name, changes in signals.items()}, "claims": claims},
    )
    sys.exit(0 if all(claims.values()) else 1)


def _read_run(words: list[str]) -> Run:
    """Every figure of every policy, from the records of a run's evaluation."""
    cfg = compose_config("pipeline", words)
    tasks = [Task.model_validate_json(row["task"]) for row in read_table(Path(cfg.eval.tasks), ["task"])]
    ledgers = {policy: Ledger(Path(cfg.eval.folder) / policy / "records") for policy in POLICIES}
    return {policy: compute_figures(list(ledger), tasks, SETTINGS) for policy, ledger in ledgers.items()}


def _read_signals(folder: Path) -> list[tuple[str, tuple[float, float]]]:
    """Means over the first and the last quarter of GRPO's steps."""
    steps = [entry for entry in read_log(folder / LOG) if all(name in entry for name in SIGNALS)]
    quarter = max(1, len(steps) // 4)
    return [
        (name, (fmean(step[name] for step in steps[:quarter]), fmean(step[name] for step in steps[-quarter:])))
        for name in SIGNALS
    ]


def over_runs(figure: str, estimates: Sequence[Estimate]) -> Estimate:
    """The mean of one figure over runs, geometric for speedups, and its interval; all None where a run has no value."""
    values = [estimate["value"] for estimate in estimates if estimate["value"] is not None]
    if len(values) < len(estimates):
        return dict.fromkeys(("value", "low", "high"))
    if is_speedup(figure):
        values = [math.log(value) for value in values]
    numbers = [fmean(values), *mean_interval(values)]
    if is_speedup(figure):
        numbers = [math.exp(number) for number in numbers]
    return {
        name: None if math.isnan(number) else number
        for name, number in zip(("value", "low", "high"), numbers, strict=True)
    }


def _check(rows: dict[str, dict[str, dict[str, Estimate]]]) -> dict[str, bool]:
    """What is claimed about learning, and whether it holds."""
    claims = {}
    for name, row in rows.items():
        if name != ALL:
            for figure in ("correct", "reward"):
                claims[f"{name}: GRPO beats SFT in {figure}"] = _number(row[CHANGE][figure]["value"]) > 0
            least, most = SFT_RIGHT
            claims[f"{name}: SFT is right {100 * least:.0f} to {100 * most:.0f} % of the time"] = (
                least <= _number(row["sft"]["correct"]["value"]) <= most
            )
            faster = row[CHANGE]["speedup"]
            claims[f"{name}: GRPO is {FASTER} times as fast where both are right, interval above 1"] = (
                _number(faster["value"]) >= FASTER and _number(faster["low"]) > 1
            )
    faster = rows[ALL][CHANGE]["speedup"]
    claims[f"{ALL}: GRPO is {FASTER} times as fast where both are right, interval above 1"] = (
        _number(faster["value"]) >= FASTER and _number(faster["low"]) > 1
    )
    gain = rows[ALL][CHANGE]["correct"]
    claims[f"{ALL}: GRPO is right at least {100 * MARGIN:.0f} points more often, interval above 0"] = (
        _number(gain["value"]) >= MARGIN and _number(gain["low"]) > 0
    )
    return claims


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _table(rows: dict[str, dict[str, dict[str, Estimate]]]) -> Table:
    table = Table(
        "", "policy", *FIGURES, title="Held-out compositions; 95 % intervals: over a run's tasks, at last over runs"
    )
    for name, row in rows.items():
        for policy, estimates in row.items():
            cells = (_cell(estimates[figure]) for figure in FIGURES)
            table.add_row(name if policy == POLICIES[0] else "", policy, *cells, end_section=policy == CHANGE)
    return table


def _cell(estimate: Estimate) -> str:
    if estimate["value"] is None:
        return "-"
    if estimate["low"] is None:
        return f"{estimate['value']:.2f}"
    return f"{estimate['value']:.2f} {estimate['low']:.2f}–{estimate['high']:.2f}"


if __name__ == "__main__":
    main()
