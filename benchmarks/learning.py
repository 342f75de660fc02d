"""Does it learn? Runs base -> SFT -> GRPO for several seeds at demo scale and prints a table with 95 % intervals.

    python benchmarks/learning.py                      # three seeds, about 15 minutes each on two cores
    python benchmarks/learning.py --seeds 0 1 recipe=toy

A seed decides the tasks, the split, the weights and the sampling. Everything goes to outputs/learning/SEED; the same
command resumes, and seeds that have finished are only read. Exits with 1 where a claim does not hold.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np
from omegaconf import DictConfig
from rich.table import Table

from kernelrl.configs import compose_config
from kernelrl.console import make_console
from kernelrl.data.tables import read_table
from kernelrl.eval.metrics import Figure, Settings, compute_figures
from kernelrl.records import Ledger
from kernelrl.task import Task

POLICIES = ("base", "sft", "grpo")
FIGURES = ("parsed", "compiled", "correct", "fast_1", "reward")
MARGIN = 0.10
"""GRPO's pooled correct rate must exceed SFT's by this much."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--folder", default="outputs/learning")
    parser.add_argument("overrides", nargs="*", help="Hydra overrides, e.g. recipe=toy")
    arguments = parser.parse_intermixed_args()

    runs: dict[str, dict[str, dict[str, Figure]]] = {}
    for seed in arguments.seeds:
        words = ["recipe=demo", *arguments.overrides, f"seed={seed}", f"output_dir={arguments.folder}/{seed}"]
        subprocess.run([sys.executable, "-m", "kernelrl.cli", "pipeline", *words], check=True)
        runs[f"seed {seed}"] = _read_figures(compose_config("pipeline", words))
    settings = Settings(k=(1,), fast_p=(1.0,), bootstrap=10_000, seed=0)
    pooled = {
        policy: {name: _pool([run[policy][name] for run in runs.values()]) for name in FIGURES} for policy in POLICIES
    }
    make_console().print(_table({**runs, "pooled": pooled}, settings))

    claims = {
        f"{name}: GRPO beats SFT in {figure}": (
            run["grpo"][figure].change_from(run["sft"][figure], settings)["value"] or 0
        )
        > 0
        for name, run in runs.items()
        for figure in ("correct", "reward")
    }
    for name, run in runs.items():
        claims[f"{name}: SFT is right 20 to 60 % of the time"] = (
            0.2 <= (run["sft"]["correct"].estimate(settings)["value"] or 0) <= 0.6
        )
    change = pooled["grpo"]["correct"].change_from(pooled["sft"]["correct"], settings)
    claims[f"pooled: GRPO is right at least {MARGIN:.0%} more often, interval above 0"] = (
        change["value"] or 0
    ) >= MARGIN and (change["low"] or 0) > 0
    for claim, holds in claims.items():
        print("yes" if holds else "NO ", claim)
    sys.exit(0 if all(claims.values()) else 1)


def _read_figures(cfg: DictConfig) -> dict[str, dict[str, Figure]]:
    """Every figure of every policy of one run, from the evaluation's records."""
    rows = read_table(Path(cfg.eval.tasks), ["task"])
    tasks = [Task.model_validate_json(row["task"]) for row in rows]
    settings = Settings(k=(1,), fast_p=(1.0,), bootstrap=0, seed=0)
    return {
        policy: compute_figures(list(Ledger(Path(cfg.eval.folder) / policy / "records")), tasks, settings)
        for policy in POLICIES
    }


def _pool(figures: list[Figure]) -> Figure:
    """One figure over the tasks of all runs."""
    return Figure(
        totals_T=np.concatenate([figure.totals_T for figure in figures]),
        counts_T=np.concatenate([figure.counts_T for figure in figures]),
    )


def _table(runs: dict[str, dict[str, dict[str, Figure]]], settings: Settings) -> Table:
    table = Table("", "policy", *FIGURES, title="Held-out compositions; intervals: 95 % bootstrap over tasks")
    for name, run in runs.items():
        for policy in POLICIES:
            table.add_row(
                name if policy == "base" else "", policy, *(_cell(run[policy][f].estimate(settings)) for f in FIGURES)
            )
        changes = [run["grpo"][f].change_from(run["sft"][f], settings) for f in FIGURES]
        table.add_row("", "grpo - sft", *map(_cell, changes), end_section=True)
    return table


def _cell(estimate: dict[str, float | None]) -> str:
    if estimate["value"] is None:
        return "-"
    return f"{estimate['value']:.2f} [{estimate['low']:.2f}, {estimate['high']:.2f}]"


if __name__ == "__main__":
    main()
