"""An evaluation on KernelBench's problems as a run folder of KernelBench's: every sample's kernel, results, baseline.

A run of KernelBench's has one level: where the tasks are of several, each has a folder `levelL` of its own.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from kernelrl.candidate import Completion
from kernelrl.errors import UserError
from kernelrl.eval.kernelbench import BASELINE, RESULTS, Sample, to_results
from kernelrl.records import Record, write_atomically, write_json
from kernelrl.strategies.trajectory import best
from kernelrl.task import Task
from kernelrl.verdict import Verdict

_ID = re.compile(r"kernelbench/level(\d+)/((\d+)_[^/@]+)(@.*)?")


def export(records: Sequence[Record], tasks: Sequence[Task], folder: Path) -> None:
    """Write a policy's samples, judged.

    Args:
        records: those of a task are its samples, in order; of a trajectory the best attempt counts.
        tasks: of `tasks=kernelbench`.
        folder: is made.

    Raises:
        UserError: a task is not KernelBench's.
    """
    problems = find_problems(tasks)
    by_level: dict[int, list[Record]] = defaultdict(list)
    for record in best(records):
        by_level[problems[record.task_id][0]].append(record)
    names = {problems[task.id]: task.model_copy(update={"id": _name(task.id)}) for task in tasks}
    for level, samples in by_level.items():
        run = folder if len(by_level) == 1 else folder / f"level{level}"
        verdicts: dict[Sample, Verdict] = {}
        numbers: Counter[str] = Counter()
        for record in samples:
            _, problem = problems[record.task_id]
            number = numbers[record.task_id]
            numbers[record.task_id] += 1
            path = run / f"level_{level}_problem_{problem}_sample_{number}_kernel.py"
            write_atomically(path, Completion.parse(record.completion).source or "")
            verdicts[Sample(level, problem, number, path)] = record.verdict
        ordered = sorted(verdicts, key=lambda sample: (sample.problem, sample.number))
        results, baseline = to_results(ordered, names, verdicts)
        write_json(run / RESULTS, results)
        write_json(run / BASELINE, baseline)


def find_problems(tasks: Sequence[Task]) -> dict[str, tuple[int, int]]:
    """Level and number of each task's problem, by the task's id.

    Raises:
        UserError: a task is not KernelBench's.
    """
    problems: dict[str, tuple[int, int]] = {}
    for task in tasks:
        match = _ID.fullmatch(task.id)
        if match is None:
            raise UserError(f"eval.kernelbench_run: task {task.id} is not of tasks=kernelbench; leave it out")
        problems[task.id] = int(match[1]), int(match[3])
    return problems


def _name(task_id: str) -> str:
    match = _ID.fullmatch(task_id)
    assert match is not None
    return match[2]
