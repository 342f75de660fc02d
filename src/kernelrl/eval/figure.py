"""A figure over tasks, its interval, and its change between two policies.

Every figure is a ratio over tasks, `sum(totals_T) / sum(counts_T)`, so that one clustered bootstrap serves them all:
programs are resampled, never the samples of one program, nor its cases.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kernelrl.records import Record
from kernelrl.stats import all_or_none_interval, pass_at_k, ratio_difference_interval, ratio_interval
from kernelrl.task import Task
from kernelrl.verdict import Verdict


@dataclass(frozen=True)
class Settings:
    """What the figures depend on beside the records."""

    k: tuple[int, ...]
    """Values of k for pass@k."""
    fast_p: tuple[float, ...]
    """Speedup thresholds."""
    bootstrap: int
    """Number of resamples."""
    seed: int
    compiled: bool = False
    """Whether the reference was timed under `torch.compile` too, for the speedups over that."""
    extra: Extra | None = None
    """A channel's figures beside those of every evaluation."""


@dataclass(frozen=True)
class Figure:
    """One figure over T tasks, or over programs: `sum(totals_T) / sum(counts_T)`, or the exponential of that."""

    totals_T: NDArray[np.float64]
    counts_T: NDArray[np.float64]
    geometric: bool = False
    """The totals are sums of logarithms: the figure is a geometric mean, and a change is a quotient."""
    share: bool = False
    """Between 0 and 1."""
    pooled: bool = False
    """What all tasks cost over what all of them gave: there is no such ratio of one task."""
    by_program: bool = False
    """It counts programs, each where its first case stands."""

    def of_programs(self, programs_T: Sequence[str]) -> Figure:
        """The figure over programs, whose cases the tasks are: the cases of one succeed and fail together.

        Args:
            programs_T: name of each task's program.
        """
        places = {name: place for place, name in enumerate(dict.fromkeys(programs_T))}
        place_T = [places[name] for name in programs_T]
        totals_P, counts_P = np.zeros(len(places)), np.zeros(len(places))
        np.add.at(totals_P, place_T, self.totals_T)
        np.add.at(counts_P, place_T, self.counts_T)
        return replace(self, totals_T=totals_P, counts_T=counts_P)

    def estimate(self, settings: Settings) -> dict[str, float | None]:
        """`value`, and `low` and `high` of its 95 % interval; None where there is nothing to average.

        Where every task gives a share of 0, or every one 1, resampling knows nothing but that; the interval is then
        the exact one of as many draws as there are tasks.
        """
        value, num_tasks = self._ratio(), int((self.counts_T > 0).sum())
        if self.share and num_tasks > 1 and value in (0.0, 1.0):
            return self._as_json(value, all_or_none_interval(bool(value), num_tasks))
        interval = ratio_interval(self.totals_T, self.counts_T, resamples=settings.bootstrap, seed=settings.seed)
        return self._as_json(value, interval)

    def change_from(self, before: Figure, settings: Settings) -> dict[str, float | None]:
        """What changed from `before` to this figure, with the interval paired by task.

        The mean, over the tasks that both measure, of the difference between a task's two means; for a geometric mean
        their quotient. Over all samples, a policy that solves more tasks, and those at a smaller speedup, would look
        slower than it is. What is pooled has no means of tasks: its change is the difference of the two ratios.
        """
        after, before = (self, before) if self.pooled else self.means_with(before)
        after_T, before_T = (after.totals_T, after.counts_T), (before.totals_T, before.counts_T)
        interval = ratio_difference_interval(after_T, before_T, resamples=settings.bootstrap, seed=settings.seed)
        return self._as_json(after._ratio() - before._ratio(), interval)

    def means_with(self, other: Figure) -> tuple[Figure, Figure]:
        """Both figures with each task that both measure as one sample, its mean, and without the others."""
        measured_T = (self.counts_T > 0) & (other.counts_T > 0)
        first, second = (
            replace(it, totals_T=it.totals_T[measured_T] / it.counts_T[measured_T], counts_T=np.ones(measured_T.sum()))
            for it in (self, other)
        )
        return first, second

    def _ratio(self) -> float:
        count = self.counts_T.sum()
        return float(self.totals_T.sum() / count) if count else math.nan

    def _as_json(self, value: float, interval: tuple[float, float]) -> dict[str, float | None]:
        numbers = [math.exp(number) if self.geometric else number for number in (value, *interval)]
        return {
            name: number if math.isfinite(number) else None
            for name, number in zip(("value", "low", "high"), numbers, strict=True)
        }


Extra = Callable[[Sequence[Sequence[Record]], Sequence[Task], Settings], dict[str, Figure]]
"""Figures by name from what is known of each task, without records of status `infrastructure`."""


def mean(values_T: Sequence[Sequence[float]], geometric: bool = False, share: bool = False) -> Figure:
    """Mean over all values of all tasks."""
    return Figure(
        totals_T=np.array([sum(values) for values in values_T], dtype=np.float64),
        counts_T=np.array([len(values) for values in values_T], dtype=np.float64),
        geometric=geometric,
        share=share,
    )


def one_of_k(passed_T: Sequence[Sequence[bool]], k: int) -> Figure:
    """Chance that one of k samples passes, unbiased (Chen et al. 2021, eq. 1), mean over tasks with k samples."""
    chances_T = [[pass_at_k(len(passed), sum(passed), k)] if len(passed) >= k else [] for passed in passed_T]
    return mean(chances_T, share=True)


def program_of(task: Task) -> str:
    """Name of the program whose case the task is; of a task that stands alone its own."""
    return f"cases of {task.case_of}" if task.case_of else task.id


def share_of_programs(
    programs_T: Sequence[str], samples_T: Sequence[Sequence[Record]], passes: Callable[[Verdict], bool]
) -> Figure:
    """Share of the samples of programs that pass in every case of the program.

    A sample that fails in one case fails, whatever is known of the others. One that passes in all that is known is left
    out where a case gave no verdict. A case that gave none for any sample cannot be judged, and does not count.

    Args:
        programs_T: name of the program whose case each task is.
        samples_T: of each task, the samples; those of the same number are one kernel.
        passes: whether a sample does.
    """
    outcomes = samples_of_programs(programs_T, samples_T)
    totals_T, counts_T = np.zeros(len(programs_T)), np.zeros(len(programs_T))
    for first, samples in outcomes.items():
        for verdicts in samples:
            passed = [None if verdict is None else passes(verdict) for verdict in verdicts]
            counts_T[first] += False in passed or None not in passed
            totals_T[first] += all(passed)
    return Figure(totals_T, counts_T, share=True, by_program=True)


def samples_of_programs(
    programs_T: Sequence[str], samples_T: Sequence[Sequence[Record]]
) -> dict[int, list[list[Verdict | None]]]:
    """By the place of a program's first case: of each sample its verdict in each case; None: there is none.

    Cases without a verdict for any sample are left out.
    """
    cases: dict[str, list[int]] = defaultdict(list)
    for index, program in enumerate(programs_T):
        cases[program].append(index)
    verdicts_T = [{_number(record): record.verdict for record in samples} for samples in samples_T]
    return {
        indices[0]: [
            [verdicts_T[index].get(number) for index in indices if verdicts_T[index]]
            for number in dict.fromkeys(number for index in indices for number in verdicts_T[index])
        ]
        for indices in cases.values()
    }


def _number(record: Record) -> str:
    """Of the sample among those of its task: its id is eval/POLICY/TASK/NUMBER, of an attempt NUMBER/ATTEMPT."""
    of_task = f"eval/{record.policy}/{record.task_id}/"
    return record.id.removeprefix(of_task).partition("/")[0] if record.id.startswith(of_task) else record.id
