"""What do the rule-based teachers make of a benchmark? Tasks read and kept, correct kernels by level and teacher.

    python benchmarks/source_yields.py kernelbench KernelBench --override tasks.scale=0.001 --sample 20
    python benchmarks/source_yields.py tritonbench TritonBench --dialect triton --folder outputs/yields --minutes 60

Of each group (KernelBench's level, or the task's category) a sample is judged that the seed draws, a task of each group
in turn, so that a run that `--minutes` ends has as many of each. Every teacher is asked for its best proposal. A run
with the same `--folder` judges only what is not in its ledger. Not covered: `teacher=paired`, whose kernels are the
source's own.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

from teacher_figures import show

from kernelrl.configs import compose_config
from kernelrl.data import sources
from kernelrl.data.teachers import Proposal, Teacher, make_teacher
from kernelrl.data.verification import Verifier
from kernelrl.executor import make_executor
from kernelrl.records import Ledger
from kernelrl.task import Task

TEACHERS = ("template", "inductor")
EXECUTOR = {"timing": False, "run_timeout_s": 60.0, "trials": 2, "sanitize": False}


class Best(Teacher):
    """The best proposal of another teacher for each task."""

    def __init__(self, teacher: Teacher):
        self.teacher, self.name, self.dialects = teacher, teacher.name, teacher.dialects
        self.wrote: set[str] = set()
        """Ids of the tasks that it has written a kernel for."""

    def proposals(self, tasks: Iterable[Task], dialect: str) -> Iterator[tuple[Task, Proposal]]:
        for task, proposal in self.teacher.proposals(tasks, dialect):
            if task.id not in self.wrote:
                self.wrote.add(task.id)
                yield task, proposal


def main() -> None:
    options = _parse()
    config = compose_config("curate", [f"tasks={options.source}", f"tasks.path={options.path}", *options.override])
    split = sources.load_part(config.tasks)
    tasks = sorted([*split.train, *split.heldout], key=lambda task: task.id)
    groups: defaultdict[str, list[Task]] = defaultdict(list)
    for task in tasks:
        groups[f"level {task.level}" if task.level else task.category].append(task)
    samples = [
        random.Random(f"{options.seed}/{name}").sample(group, len(group))[: options.sample]
        for name, group in sorted(groups.items())
    ]
    in_turn = [task for row in zip_longest(*samples) for task in row if task is not None]
    teachers = [
        Best(make_teacher(compose_config("curate", [f"teacher={name}"]).teacher, options.dialect))
        for name in options.teachers
    ]
    right, reached = _judge(in_turn, teachers, options)

    def count(ids: set[str]) -> dict[str, int]:
        return {
            name: sum(task.id in ids and task in reached for task in group) for name, group in sorted(groups.items())
        }

    results = {
        "tasks read": len(tasks) + sum(split.skipped.values()),
        "left out": split.skipped,
        "tasks kept": {name: len(group) for name, group in sorted(groups.items())},
        "sampled": count({task.id for task in reached}),
        "with a correct kernel": count(set().union(*right.values())),
    }
    for teacher in teachers:
        results[f"{teacher.name}: wrote"] = count(teacher.wrote)
        results[f"{teacher.name}: correct"] = count(right[teacher.name])
        results[f"{teacher.name}: its summary"] = json.dumps(teacher.teacher.summary())
    show(results, options)


def _judge(
    tasks: list[Task], teachers: list[Best], options: argparse.Namespace
) -> tuple[dict[str, set[str]], list[Task]]:
    """Ids of the tasks for which each teacher's kernel is correct, and the tasks whose turn has come."""
    end = time.monotonic() + 60 * options.minutes
    right: dict[str, set[str]] = {teacher.name: set() for teacher in teachers}
    with tempfile.TemporaryDirectory() as scratch, make_executor(EXECUTOR) as executor:
        ledger = Ledger(options.folder or Path(scratch))
        verifier = Verifier(executor, ledger, "short", workers=1)
        asked = [(teacher, options.dialect) for teacher in teachers]
        for proposed, verdict in verifier.verify(tasks, asked, None, "judging kernels"):
            if verdict.correct:
                right[proposed.teacher].add(proposed.task.id)
            elif options.failures:
                print(f"{proposed.task.id}: {proposed.teacher}: {verdict.status}: {verdict.feedback[:600]}", flush=True)
            if time.monotonic() > end:
                return right, tasks[: tasks.index(proposed.task)]
    return right, tasks


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="a config of configs/tasks")
    parser.add_argument("path", help="tasks.path")
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--teachers", nargs="+", choices=TEACHERS, default=list(TEACHERS))
    parser.add_argument("--dialect", choices=("cpp", "triton"), default="cpp")
    parser.add_argument("--sample", type=int, default=20, help="tasks of each group")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="of the ledger of verdicts; without it they are not kept")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--failures", action="store_true", help="print every kernel that is not correct, and why")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    return parser.parse_args()


if __name__ == "__main__":
    main()
