"""Benchmark channels: figures as a paper defines them, one file each with `figures(samples_T, tasks, settings)`.

They stand beside the figures of every evaluation (`eval/metrics.py`), and get intervals, categories, levels and
comparisons as those do. A channel without figures of its own is a config alone (`configs/channel`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from kernelrl.candidate import Completion
from kernelrl.errors import UserError
from kernelrl.eval.figure import Extra
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


def least_samples(name: str) -> int:
    """Samples of a task that a channel's figures need, its `MIN_SAMPLES`; one, where it does not say.

    Raises:
        UserError: there is no such channel; names those that there are.
    """
    return int(getattr(_module(name), "MIN_SAMPLES", 1))


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
