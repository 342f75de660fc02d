"""How fast are tasks synthesised, how many differ, what do they cover, and how many are worth training on?

    python benchmarks/synthesis.py                       # 12,000 tasks, 200 of them filtered
    python benchmarks/synthesis.py --tasks 2000 --sample 50 --json

Tasks come from one seed with the default dials; distinct means up to renaming. A random sample goes through the task
filters with their default settings.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from rich.table import Table

from kernelrl.console import make_console
from kernelrl.data.filters import FilterSettings, probe_all
from kernelrl.data.graph.generate import tasks
from kernelrl.data.graph.graph import Dials
from kernelrl.data.graph.operators import OPERATORS
from kernelrl.data.program import normalise
from kernelrl.task import Task

MULTIKERNELBENCH = {
    "elementwise": "math",
    "scan": "math",
    "softmax": "activation",
    "attention": "full architecture",
    "block": "full architecture",
}
"""Where that benchmark (arXiv 2507.17773) sorts our category otherwise; several operators together are a fusion."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=12_000)
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    options = parser.parse_args()

    started = time.perf_counter()
    stream = tasks(options.seed, Dials())
    drawn = [next(stream) for _ in range(options.tasks)]
    seconds = time.perf_counter() - started
    results = {
        "tasks": len(drawn),
        "tasks_per_second": len(drawn) / seconds,
        "distinct": len({normalise(task.source).sizes for task in drawn}),
        "compositions": len({task.ops for task in drawn}),
        "operators": len({name for task in drawn for name in task.ops}),
        "operators_known": len(OPERATORS),
        "with_shape_ranges": sum(bool(task.shape_ranges) for task in drawn),
        "with_parameters": sum("def __init__" in task.source for task in drawn),
        "categories": dict(Counter(task.category for task in drawn)),
        "categories_of_multikernelbench": dict(Counter(map(_multikernelbench, drawn))),
        **_filter(random.Random(options.seed).sample(drawn, options.sample)),
    }
    print(json.dumps(results)) if options.json else make_console().print(_table(results))


def _multikernelbench(task: Task) -> str:
    if task.level == 2:
        return "fusion"
    return MULTIKERNELBENCH.get(task.category, task.category)


def _filter(sample: list[Task]) -> dict[str, Any]:
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        reasons = probe_all(sample, len(sample), FilterSettings(), Path(folder) / "filters.jsonl")
    dropped = Counter(reason for reason in reasons.values() if reason)
    return {
        "filtered": len(sample),
        "filtered_per_second": len(sample) / (time.perf_counter() - started),
        "survive": 1 - dropped.total() / len(sample),
        "dropped": dict(dropped),
    }


def _table(results: dict[str, Any]) -> Table:
    table = Table("what", "figure")
    for name, value in results.items():
        if isinstance(value, dict):
            value = "\n".join(f"{key}: {number}" for key, number in sorted(value.items()))
        table.add_row(name.replace("_", " "), f"{value:.2f}" if isinstance(value, float) else str(value))
    return table


if __name__ == "__main__":
    main()
