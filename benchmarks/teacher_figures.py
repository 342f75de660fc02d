"""What the benchmarks of teachers share: tasks from one seed, verdicts on the proposals, a table."""

from __future__ import annotations

import argparse
import json
import statistics
from collections import Counter, defaultdict
from itertools import islice
from typing import Any

from rich.table import Table

from kernelrl.candidate import Candidate
from kernelrl.configs import compose_config, read_node
from kernelrl.console import make_console, track
from kernelrl.data.graph.generate import tasks
from kernelrl.data.graph.graph import Dials
from kernelrl.data.teachers import Proposal
from kernelrl.executor import Request, make_executor
from kernelrl.task import Task


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """The options that both have."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dialect", choices=("cpp", "triton"), default="cpp")
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--small", action="store_true", help="small tensors")
    parser.add_argument("--all-levels", action="store_true", help="judge every proposal, not only the first")
    parser.add_argument("--timing", action="store_true", help="measure speedups")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    return parser


def draw(options: argparse.Namespace) -> list[Task]:
    """Synthesised tasks with the default dials, or with those of `tasks=graph_small`."""
    config = compose_config("curate", [f"tasks={'graph_small' if options.small else 'graph'}"])
    return list(islice(tasks(options.seed, read_node(Dials, config.tasks.dials, "tasks.dials")), options.tasks))


def judge(drawn: list[Task], proposals: list[tuple[Task, Proposal]], options: argparse.Namespace) -> dict[str, Any]:
    """Counts of what the executor says of the proposals."""
    requests = [
        Request(task=task, candidate=Candidate(source=each.source, dialect=options.dialect), dialect=options.dialect)
        for task, each in proposals
    ]
    statuses: Counter[str] = Counter()
    right: set[str] = set()
    speedups: dict[str, list[float]] = defaultdict(list)
    settings = {"timing": options.timing, "trials": 2, "run_timeout_s": 60.0}
    with make_executor(settings) as executor, track(len(requests), "judging kernels") as progress:
        for index, verdict in executor.stream(requests):
            task, proposal = proposals[index]
            statuses[f"{proposal.level}: {verdict.status}"] += 1
            if verdict.correct:
                right.add(task.id)
            if verdict.speedup:
                speedups[str(proposal.level)].append(verdict.speedup.median)
            progress.advance()
    per_category = {
        category: [sum(task.category == category and task.id in right for task in drawn), count]
        for category, count in sorted(Counter(task.category for task in drawn).items())
    }
    return {
        "dialect": options.dialect,
        "tasks": len(drawn),
        "tasks_with_a_proposal": len({task.id for task, _ in proposals}),
        "tasks_with_a_correct_kernel": len(right),
        "correct_of_category": per_category,
        "verdicts": dict(sorted(statuses.items())),
        "speedup_geometric_mean": {level: statistics.geometric_mean(values) for level, values in speedups.items()},
    }


def show(results: dict[str, Any], options: argparse.Namespace) -> None:
    """Print the results as JSON or as a table."""
    print(json.dumps(results)) if options.json else make_console().print(_table(results))


def _table(results: dict[str, Any]) -> Table:
    table = Table("what", "figure")
    for name, value in results.items():
        if isinstance(value, dict):
            value = "\n".join(f"{key}: {number}" for key, number in value.items())
        table.add_row(name.replace("_", " "), str(value))
    return table
