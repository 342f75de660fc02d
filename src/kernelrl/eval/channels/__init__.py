"""Benchmark channels: figures as a paper defines them, one file each with `figures(samples_T, tasks, settings)`.

They stand beside the figures of every evaluation (`eval/metrics.py`), and get intervals, categories, levels and
comparisons as those do. A channel without figures of its own is a config alone (`configs/channel`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

import numpy as np

from kernelrl.candidate import Completion
from kernelrl.errors import UserError
from kernelrl.eval.metrics import Extra, Figure
from kernelrl.records import Record
from kernelrl.task import Task
from kernelrl.verdict import Verdict

Judge = Callable[[Task, Completion], Verdict]
"""What a channel whose completions are no kernels judges them by, in place of the executor."""


def find_figures(name: str) -> Extra:
    """What computes a channel's figures.

    Raises:
        UserError: there is no such channel; names those that there are.
    """
    figures: Extra = _module(name).figures
    return figures


def find_judge(name: str) -> Judge | None:
    """What judges a channel's completions; None: the executor does.

    Raises:
        UserError: there is no such channel; names those that there are.
    """
    judge: Judge | None = getattr(_module(name), "judge", None)
    return judge


def check_tasks(name: str, tasks: Sequence[Task]) -> None:
    """Whether a channel's figures can be made of these tasks, by its `accepts(task)`; one without it takes any task.

    Raises:
        UserError: a task is of another source than the channel's; names it.
    """
    accepts: Callable[[Task], bool] | None = getattr(_module(name), "accepts", None)
    foreign = [] if accepts is None else [task.id for task in tasks if not accepts(task)]
    if foreign:
        raise UserError(
            f"eval.channel={name}: {len(foreign)} of {len(tasks)} tasks are not of tasks={name}, e.g. {foreign[0]}; "
            f"evaluate on those with channel={name}, or give eval.channel=null"
        )


def _module(name: str) -> ModuleType:
    names = sorted(module.name for module in iter_modules(__path__))
    if name not in names:
        raise UserError(f"eval.channel={name!r} is not known; choose one of {', '.join(names)}")
    return import_module(f"{__name__}.{name}")


def by_program(
    programs_T: Sequence[str], samples_T: Sequence[Sequence[Record]], passes: Callable[[Verdict], bool]
) -> Figure:
    """Share of the samples of programs that pass in every case of the program.

    A sample without a verdict in one of the cases is left out. A program counts where its first case stands.

    Args:
        programs_T: name of the program whose case each task is.
        samples_T: of each task, the samples; those of the same number are one kernel.
        passes: whether a sample does.
    """
    cases: dict[str, list[int]] = defaultdict(list)
    for index, program in enumerate(programs_T):
        cases[program].append(index)
    passed_T = [{_number(record): passes(record.verdict) for record in samples} for samples in samples_T]
    totals_T, counts_T = np.zeros(len(programs_T)), np.zeros(len(programs_T))
    for first, *others in cases.values():
        known = set(passed_T[first]).intersection(*(passed_T[other] for other in others))
        totals_T[first] = sum(all(passed_T[case][number] for case in (first, *others)) for number in known)
        counts_T[first] = len(known)
    return Figure(totals_T, counts_T)


def _number(record: Record) -> str:
    """Of the sample among those of its task: its id is eval/POLICY/TASK/NUMBER, of an attempt NUMBER/ATTEMPT."""
    return record.id.removeprefix(f"eval/{record.policy}/{record.task_id}/").partition("/")[0]


def mean(values_T: Sequence[Sequence[float]]) -> Figure:
    """Mean over all values of all tasks."""
    return Figure(
        np.array([sum(values) for values in values_T], dtype=np.float64),
        np.array([len(values) for values in values_T], dtype=np.float64),
    )
