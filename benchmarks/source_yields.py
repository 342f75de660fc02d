"""What do the rule-based teachers make of a benchmark? Tasks read and kept, correct kernels by level and teacher.

    python benchmarks/source_yields.py kernelbench KernelBench --override tasks.scale=0.01 --sample 20
    python benchmarks/source_yields.py tritonbench TritonBench --dialect triton --failures

Of each group (KernelBench's level, or the task's category) a sample is judged that the seed draws. Every teacher is
asked for its best proposal. Not covered: `teacher=paired`, whose kernels are the source's own.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import defaultdict

from omegaconf import OmegaConf
from teacher_figures import show

from kernelrl.candidate import Candidate
from kernelrl.configs import compose_config
from kernelrl.console import track
from kernelrl.data import sources
from kernelrl.data.teachers import Proposal, make_teacher
from kernelrl.executor import Request, make_executor
from kernelrl.task import Task

TEACHERS = ("template", "inductor")


def main() -> None:
    options = _parse()
    config = compose_config("curate", [f"tasks={options.source}", f"tasks.path={options.path}", *options.override])
    split = sources.load_part(config.tasks)
    tasks = sorted([*split.train, *split.heldout], key=lambda task: task.id)
    groups: defaultdict[str, list[Task]] = defaultdict(list)
    for task in tasks:
        groups[f"level {task.level}" if task.level else task.category].append(task)
    draw = random.Random(options.seed)
    sample = {name: draw.sample(group, min(options.sample, len(group))) for name, group in sorted(groups.items())}
    chosen = [task for group in sample.values() for task in group]
    proposals = {name: _propose(name, chosen, options.dialect) for name in options.teachers}
    right = {name: _judge(found, options) for name, found in proposals.items()}
    any_right = set().union(*right.values())
    results = {
        "tasks read": len(tasks) + sum(split.skipped.values()),
        "left out": split.skipped,
        "tasks kept": len(tasks),
        "judged": {name: len(group) for name, group in sample.items()},
        "with a correct kernel": {name: sum(task.id in any_right for task in group) for name, group in sample.items()},
    }
    for name in options.teachers:
        for what, ids in (("proposed", proposals[name].keys()), ("correct", right[name])):
            results[f"{name}: {what}"] = {each: sum(task.id in ids for task in group) for each, group in sample.items()}
    show(results, options)


def _propose(name: str, tasks: list[Task], dialect: str) -> dict[str, tuple[Task, Proposal]]:
    """The teacher's best proposal by task id."""
    config = compose_config("curate", [f"teacher={name}", "teacher.workers=1"] if name == "inductor" else [])
    teacher = make_teacher(config.teacher if name == "inductor" else OmegaConf.create({"name": name}), dialect)
    found: dict[str, tuple[Task, Proposal]] = {}
    for task, proposal in teacher.proposals(tasks, dialect):
        found.setdefault(task.id, (task, proposal))
    print(f"{name}: {json.dumps(teacher.summary())}", flush=True)
    return found


def _judge(proposals: dict[str, tuple[Task, Proposal]], options: argparse.Namespace) -> set[str]:
    """Ids of the tasks whose kernel is correct."""
    pairs = list(proposals.values())
    requests = [
        Request(task=task, candidate=Candidate(source=each.source, dialect=options.dialect), dialect=options.dialect)
        for task, each in pairs
    ]
    right: set[str] = set()
    settings = {"timing": False, "run_timeout_s": 60.0, "trials": 2, "sanitize": False}
    with make_executor(settings) as executor, track(len(requests), "judging kernels") as progress:
        for _, verdict in executor.stream(requests):
            if verdict.correct:
                right.add(verdict.task_id)
            elif options.failures:
                print(f"{verdict.task_id}: {verdict.status}: {verdict.feedback[:600]}", flush=True)
            progress.advance()
    return right


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="a config of configs/tasks")
    parser.add_argument("path", help="tasks.path")
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--teachers", nargs="+", choices=TEACHERS, default=list(TEACHERS))
    parser.add_argument("--dialect", choices=("cpp", "triton"), default="cpp")
    parser.add_argument("--sample", type=int, default=20, help="tasks of each group")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--failures", action="store_true", help="print every kernel that is not correct, and why")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    return parser.parse_args()


if __name__ == "__main__":
    main()
