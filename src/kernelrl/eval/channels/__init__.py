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


def by_group(groups_T: Sequence[str], passed_T: Sequence[Sequence[bool]]) -> Figure:
    """Share of the samples of groups of tasks that pass in every task of the group.

    A group's i-th sample is the i-th sample of each of its tasks. The group counts where its first task stands.

    Args:
        groups_T: name of each task's group.
        passed_T: of each task, whether each sample passes.
    """
    members: dict[str, list[int]] = defaultdict(list)
    for index, group in enumerate(groups_T):
        members[group].append(index)
    totals_T, counts_T = np.zeros(len(groups_T)), np.zeros(len(groups_T))
    for indices in members.values():
        samples = list(zip(*(passed_T[index] for index in indices), strict=False))
        totals_T[indices[0]] = sum(all(sample) for sample in samples)
        counts_T[indices[0]] = len(samples)
    return Figure(totals_T, counts_T)


def mean(values_T: Sequence[Sequence[float]]) -> Figure:
    """Mean over all values of all tasks."""
    return Figure(
        np.array([sum(values) for values in values_T], dtype=np.float64),
        np.array([len(values) for values in values_T], dtype=np.float64),
    )


def correct(samples_T: Sequence[Sequence[Record]]) -> list[list[bool]]:
    """Of each task, whether each sample is correct."""
    return [[record.verdict.correct for record in samples] for samples in samples_T]
