"""Do strategies pay? Trained through, and as search, at equal numbers of judged candidates, over several seeds.

    python benchmarks/strategies.py                       # three seeds at demo scale: some hours on two cores
    python benchmarks/strategies.py --data outputs/demo/data grpo.trainer.max_steps=8 search.limit=20

Two questions, on the same held-out tasks:

- trained: one SFT policy per seed is trained on single answers, through `refine` and through `contrastive`, with as
  many rows a step. Each trained policy then searches as it was trained (`single` by independent answers).
- search: the SFT policy searches by `best_of_n`, `refine` and `evolve`.

Every search has the same budget of candidates per task. A run of a seed is one observation, and intervals are Student's
over runs; of one seed there are none. A seed decides the tasks too, unless --data names a data set for all seeds. A
policy that never saw a second turn writes none: give `curate.repairs=0.2`, or a data set that was made with it.
FOLDER/SEED holds the runs, and the same command resumes; FOLDER/strategies.json holds the figures of every run and the
table, FOLDER/plots the curves.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.table import Table

from kernelrl.configs import compose_config
from kernelrl.console import make_console
from kernelrl.eval import plots
from kernelrl.records import Ledger, write_json
from kernelrl.runs.stages import STAGES
from kernelrl.stats import mean_interval

TRAINED = {
    "single": ["strategy=single", "grpo.turns.rows=1"],
    "refine": ["strategy=refine", "strategy.max_turns=2", "grpo.turns.rows=2"],
    "contrastive": ["strategy=contrastive", "strategy.rounds=1", "strategy.n=1", "grpo.turns.rows=1"],
}
"""How the policy is trained. With several rows a trajectory, a group has as many fewer trajectories."""
SEARCHES = {"best_of_n": ["strategy=best_of_n"], "refine": ["strategy=refine"], "evolve": ["strategy=evolve"]}
AS_TRAINED = {"single": "best_of_n", "refine": "refine", "contrastive": "contrastive"}
FIGURES = ("solved", "speedup_all")
Results = Mapping[str, Any]
"""Content of a search's `results.json`."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--recipe", default="demo")
    parser.add_argument("--candidates", type=int, default=16, help="judged per task in every search")
    parser.add_argument("--data", help="folder of a data set on which every seed trains; without it each makes its own")
    parser.add_argument("--folder", default="outputs/strategies")
    parser.add_argument("overrides", nargs="*", help="Hydra overrides")
    arguments = parser.parse_intermixed_args()

    found = [_run(arguments, seed) for seed in arguments.seeds]
    summary = summarize(found, arguments.seeds)
    folder = Path(arguments.folder)
    write_json(folder / "strategies.json", {"candidates": arguments.candidates} | summary)
    with plots.saving(folder / "plots"):
        plot([run["curves"] for run in found])
    make_console().print(_table(summary["figures"] | summary["differences"], len(found)))
    for name, numbers in summary["judged_in_training"].items():
        print(f"judged while training {name}: {', '.join(map(str, numbers))}")


def summarize(found: Sequence[Mapping[str, Any]], seeds: Sequence[int]) -> dict[str, Any]:
    """What is written of the runs of all seeds: the figures of each run, their means, and the differences."""
    searches = [run["searches"] for run in found]
    differences = {
        f"{name} - {base}": over_runs([_difference(each, base, name) for each in searches])
        for base, names in (
            ("trained single", ("trained refine", "trained contrastive")),
            ("search best_of_n", ("search refine", "search evolve")),
        )
        for name in names
    }
    return {
        "seeds": list(seeds),
        "judged_in_training": {name: [run["judged"][name] for run in found] for name in found[0]["judged"]},
        "runs": {
            name: [
                {"seed": seed, "solved": each[name]["solved"], "speedup_all": math.exp(each[name]["speedup_all"])}
                for seed, each in zip(seeds, searches, strict=True)
            ]
            for name in searches[0]
        },
        "figures": {name: over_runs([each[name] for each in searches]) for name in searches[0]},
        "differences": differences,
    }


def _run(arguments: argparse.Namespace, seed: int) -> dict[str, Any]:
    """One seed: figures and curves of every search, and how many candidates each training judged."""
    folder = Path(arguments.folder) / str(seed)
    words = [f"recipe={arguments.recipe}", f"seed={seed}", f"output_dir={folder}", "tracker=none"]
    data = arguments.data or folder / "data"
    words += [f"curate.folder={data}", *arguments.overrides]

    def stage(name: str, *more: str) -> Path:
        return STAGES[name].run(compose_config(name, [*words, *more]))

    def search(name: str, policy: Path, strategy: Sequence[str]) -> Results:
        more = [f"policy.model={policy}", f"search.folder={folder}/{name}", *strategy]
        more += [f"search.tasks={data}/tasks_heldout.parquet", f"search.budget.candidates={arguments.candidates}"]
        results: Results = json.loads(stage("search", *more, "search.repeat=true").read_text())
        return results

    if arguments.data is None:
        stage("curate")
    stage("sft")
    results: dict[str, Results] = {}
    judged = {}
    for name, strategy in TRAINED.items():
        trained = stage("grpo", *strategy, f"grpo.folder={folder}/grpo_{name}")
        judged[name] = sum(1 for _ in Ledger(trained / "records"))
        as_trained = [f"strategy={AS_TRAINED[name]}", *(word for word in strategy if word.startswith("strategy."))]
        results[f"trained {name}"] = search(f"trained_{name}", trained / "final", as_trained)
    for name, strategy in SEARCHES.items():
        results[f"search {name}"] = search(f"search_{name}", folder / "sft" / "final", strategy)
    return {
        "judged": judged,
        "searches": {name: _values(each) for name, each in results.items()},
        "curves": {name: each["curve"] for name, each in results.items()},
    }


def _values(results: Results) -> dict[str, float]:
    """Share of tasks solved, and the logarithm of the mean speedup."""
    found = results["estimates"]
    return {"solved": found["solved"]["value"], "speedup_all": math.log(found["speedup_all"]["value"])}


def _difference(searches: Mapping[str, Mapping[str, float]], base: str, name: str) -> dict[str, float]:
    return {figure: searches[name][figure] - searches[base][figure] for figure in FIGURES}


def over_runs(values: Sequence[Mapping[str, float]]) -> dict[str, dict[str, float | None]]:
    """The mean of each figure over runs, of speedups the geometric one, with Student's interval; None: one run."""
    found: dict[str, dict[str, float | None]] = {}
    for figure in FIGURES:
        each = [run[figure] for run in values]
        numbers = [fmean(each), *mean_interval(each)]
        if figure == "speedup_all":
            numbers = [math.exp(number) for number in numbers]
        names = ("value", "low", "high")
        found[figure] = {
            name: None if math.isnan(number) else number for name, number in zip(names, numbers, strict=True)
        }
    return found


def plot(runs: Sequence[Mapping[str, Sequence[Mapping[str, float]]]]) -> str:
    """Share of tasks solved against candidates per task: the mean over seeds in a band from smallest to largest."""
    panels = []
    for title, prefix in (("Trained through a strategy", "trained "), ("Search by the SFT policy", "search ")):
        lines = {}
        for name in (name for name in runs[0] if name.startswith(prefix)):
            points = []
            for number in range(max(len(run[name]) for run in runs)):
                solved = [run[name][min(number, len(run[name]) - 1)]["solved"] for run in runs]
                points.append((number + 1, fmean(solved), min(solved), max(solved)))
            lines[name.removeprefix(prefix)] = points
        panels.append((f"{title}: tasks solved by candidates", lines, True))
    return plots.bands(panels, "Tasks solved by candidates per task", "candidates")


def _table(rows: Mapping[str, Mapping[str, Mapping[str, float | None]]], num_runs: int) -> Table:
    table = Table("", *FIGURES, title=f"Held-out tasks at equal candidates; mean of {num_runs} run(s), 95 % intervals")
    for name, figures in rows.items():
        table.add_row(name, *(_cell(figures[figure]) for figure in FIGURES))
    return table


def _cell(estimate: Mapping[str, float | None]) -> str:
    if estimate["low"] is None:
        return f"{estimate['value']:.2f}"
    return f"{estimate['value']:.2f} [{estimate['low']:.2f}, {estimate['high']:.2f}]"


if __name__ == "__main__":
    main()
