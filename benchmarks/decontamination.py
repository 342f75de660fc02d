"""Is a benchmark task found in a training set, however it is rewritten? Are unrelated tasks left alone? How fast?

    python benchmarks/decontamination.py                        # recall, false positives, 100,000 tasks against 1,000
    python benchmarks/decontamination.py --tasks 5000 --json

Recall: benchmark tasks (the synthesiser's, the executor's test tasks, modules written by hand) are rewritten in the
ways of `tests/rewrites.py`; a rewrite counts as found when it matches the very task that it comes from. Unrelated:
tasks of the synthesiser with other compositions than the benchmark's, and hand-written ones that are not in it.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
from omegaconf import OmegaConf
from rich.table import Table

from kernelrl.console import make_console
from kernelrl.data import sources
from kernelrl.data.decontamination import Benchmark, Match, Settings, find
from kernelrl.data.graph.chain import SHAPES
from kernelrl.task import Task

TESTS = Path(__file__).parents[1] / "tests"
sys.path.insert(0, str(TESTS))
import module_tasks  # noqa: E402
import rewrites  # noqa: E402

NUM_SYNTHETIC, NUM_BENCHMARK = 150, 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=100_000, help="training tasks of the scale test (default 100000)")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(cache_dir=folder, workers=2)
        result = {
            "recall": _recall(settings),
            "unrelated": _unrelated(settings),
            "scale": _scale(options.tasks, settings),
        }
    if options.json:
        print(json.dumps(result))
        return
    for title, rows in result.items():
        make_console().print(_table(title, rows))


def _recall(settings: Settings) -> dict[str, Any]:
    """Share of rewrites found, by the way of rewriting; and by the kind that found them."""
    originals = [
        *_synthetic(NUM_SYNTHETIC, seed=0),
        *module_tasks.hand_written(),
        *rewrites.test_tasks(TESTS / "tasks"),
    ]
    variants: list[Task] = []
    for task in originals:
        variants += rewrites.all_of(task)
    untraced: dict[tuple[str, str], str] = {}
    matches = list(find(variants, [Benchmark("benchmark", tuple(originals))], settings, untraced))
    found = {match.task for match in matches if match.task.partition("#")[0] == match.benchmark_task}
    ways = Counter(task.id.partition("#")[2] for task in variants)
    hits = Counter(task.id.partition("#")[2] for task in variants if task.id in found)
    missed = [task.id for task in variants if task.id not in found]
    return {
        "originals": len(originals),
        "rewrites": len(variants),
        "found": len(found) / len(variants),
        "found_by_way": {way: hits[way] / count for way, count in ways.items()},
        "found_by_kind": dict(Counter(m.kind for m in matches if m.task.partition("#")[0] == m.benchmark_task)),
        "not_traced": len(untraced),
        "missed": missed[:20],
    }


def _unrelated(settings: Settings) -> dict[str, Any]:
    """Share of tasks with other compositions that match anything."""
    every = _synthetic(NUM_BENCHMARK + 2000, seed=1)
    hand = module_tasks.hand_written()
    theirs = [*every[:NUM_BENCHMARK], *rewrites.test_tasks(TESTS / "tasks")]
    matches = list(find([*every[NUM_BENCHMARK:], *hand], [Benchmark("benchmark", tuple(theirs))], settings, {}))
    flagged = {match.task for match in matches}
    return {
        "tasks": len(every) - NUM_BENCHMARK + len(hand),
        "benchmark_tasks": len(theirs),
        "flagged": len(flagged) / (len(every) - NUM_BENCHMARK + len(hand)),
        "flagged_by_kind": _kinds(matches),
        "examples": [f"{m.task} ~ {m.benchmark_task} ({m.kind}, {m.score})" for m in matches[:10]],
    }


def _scale(num_tasks: int, settings: Settings) -> dict[str, Any]:
    """Times of the first comparison, which traces everything, and of a second one, which finds it in the cache."""
    rng = random.Random(2)
    compositions = _synthetic(min(num_tasks, 20_000) + NUM_BENCHMARK, seed=2)
    benchmark = Benchmark("benchmark", tuple(compositions[:NUM_BENCHMARK]))
    tasks = []
    for number in range(num_tasks):  # every task has a source of its own: nothing is found in the cache by chance
        task = compositions[NUM_BENCHMARK + number % (len(compositions) - NUM_BENCHMARK)]
        old, (rows, columns) = task.id.rpartition("/")[2], rng.choice(SHAPES)
        sizes = f"M, N, K = {rows + number}, {columns}, 64"
        source = task.source.replace(f"M, N, K = {old.replace('x', ', ')}, 64", sizes)
        tasks.append(task.model_copy(update={"id": f"{task.id}/{number}", "source": source}))
    seconds, processor_seconds = [], []
    for _ in range(2):
        started, used = time.perf_counter(), _processor_seconds()
        matched = {match.task for match in find(tasks, [benchmark], settings, {})}
        seconds.append(time.perf_counter() - started)
        processor_seconds.append(_processor_seconds() - used)
    return {
        "tasks": num_tasks,
        "benchmark_tasks": NUM_BENCHMARK,
        "workers": settings.workers,
        "seconds": round(seconds[0], 1),
        "tasks_per_second": round(num_tasks / seconds[0], 1),
        "processor_seconds": round(processor_seconds[0], 1),
        "seconds_again": round(seconds[1], 1),
        "tasks_per_second_again": round(num_tasks / seconds[1], 1),
        "matched": len(matched),
    }


def _processor_seconds() -> float:
    """Of this process and the workers' (with those that have ended): the figure to look at on a busy machine."""
    own = psutil.Process()
    return sum(sum(process.cpu_times()[:4]) for process in (own, *own.children(recursive=True)))


def _synthetic(count: int, seed: int) -> list[Task]:
    """Tasks with distinct compositions of 2 to 5 operators."""
    settings = {"source": "synthetic", "seed": seed, "num_train": count, "num_heldout": 1}
    cfg = OmegaConf.create({**settings, "min_ops": 2, "max_ops": 5, "operators": None})
    return sources.load(cfg).train[:count]


def _kinds(matches: list[Match]) -> dict[str, int]:
    return dict(Counter(match.kind for match in matches))


def _table(title: str, rows: dict[str, Any]) -> Table:
    table = Table(title=title, show_header=False)
    for name, value in rows.items():
        if isinstance(value, dict):
            for key, each in value.items():
                table.add_row(f"{name}: {key}", f"{each:.3f}" if isinstance(each, float) else str(each))
        elif isinstance(value, list):
            table.add_row(name, "\n".join(map(str, value)))
        else:
            table.add_row(name, f"{value:.4f}" if isinstance(value, float) and value <= 1 else str(value))
    return table


if __name__ == "__main__":
    main()
