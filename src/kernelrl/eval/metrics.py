"""Figures of a policy from its records, and the differences between policies. Runs nothing.

Every figure is a ratio over tasks, `sum(totals_T) / sum(counts_T)`, so that one clustered bootstrap serves them all:
tasks are resampled, never the samples of one task. Records with status `infrastructure` say nothing about the policy
and are left out (and counted).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelrl.eval.difficulty import by_reasoning_length
from kernelrl.records import Record
from kernelrl.stats import is_fast, pass_at_k, ratio_difference_interval, ratio_interval
from kernelrl.strategies.trajectory import best
from kernelrl.task import Task
from kernelrl.verdict import Speedup, Verdict

RATES: dict[str, Callable[[Verdict], bool]] = {
    "parsed": lambda verdict: verdict.reached("parsed"),
    "legal": lambda verdict: verdict.legal,
    "compiled": lambda verdict: verdict.legal and verdict.reached("compiled"),
    "ran": lambda verdict: verdict.legal and verdict.reached("ran"),
    "correct": lambda verdict: verdict.correct,
}
"""The funnel: share of all samples that come this far without breaking a rule; each is at most the one before."""


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
    """One figure over T tasks: `sum(totals_T) / sum(counts_T)`, or the exponential of that."""

    totals_T: NDArray[np.float64]
    counts_T: NDArray[np.float64]
    geometric: bool = False
    """The totals are sums of logarithms: the figure is a geometric mean, and a change is a quotient."""

    def estimate(self, settings: Settings) -> dict[str, float | None]:
        """`value`, and `low` and `high` of its 95 % interval; None where there is nothing to average."""
        interval = ratio_interval(self.totals_T, self.counts_T, resamples=settings.bootstrap, seed=settings.seed)
        return self._as_json(self._ratio(), interval)

    def change_from(self, before: Figure, settings: Settings) -> dict[str, float | None]:
        """What changed from `before` to this figure, with the interval paired by task.

        The mean, over the tasks that both measure, of the difference between a task's two means; for a geometric mean
        their quotient. Over all samples, a policy that solves more tasks, and those at a smaller speedup, would look
        slower than it is.
        """
        after, before = self.means_with(before)
        after_T, before_T = (after.totals_T, after.counts_T), (before.totals_T, before.counts_T)
        interval = ratio_difference_interval(after_T, before_T, resamples=settings.bootstrap, seed=settings.seed)
        return self._as_json(after._ratio() - before._ratio(), interval)

    def means_with(self, other: Figure) -> tuple[Figure, Figure]:
        """Both figures with each task that both measure as one sample, its mean, and without the others."""
        measured_T = (self.counts_T > 0) & (other.counts_T > 0)
        first, second = (
            Figure(it.totals_T[measured_T] / it.counts_T[measured_T], np.ones(measured_T.sum()), it.geometric)
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


def compute_figures(records: Sequence[Record], tasks: Sequence[Task], settings: Settings) -> dict[str, Figure]:
    """All figures of one policy by name.

    - `parsed`, `legal`, `compiled`, `ran`, `correct`: see `RATES`.
    - `pass@k`: mean over tasks of the unbiased estimate (Chen et al. 2021, eq. 1).
    - `fast_p`: share of all samples that are correct and more than p times as fast as the reference (KernelBench,
      arXiv 2502.10517). By the median of the timing pairs; not known where no correct sample was timed.
    - `speedup`: geometric mean, over the correct samples whose speedup was measured, of the median speedup
      (KernelBench's `geometric_mean_speed_ratio_correct_only`).
    - `speedup_all`: the same over all samples, where one that is not correct counts as 1: whoever has no kernel runs
      the reference. A correct sample without a time is left out; not known where no correct sample was timed.
    - `fast_p@k`: chance that one of k samples is correct and more than p times as fast, unbiased like `pass@k`, for the
      largest k; `best@k`: speedup of the best of k samples of a task, see `best_of_k`.
    - `speedup_compiled`, `fast_p_compiled`: the same as without the suffix, over the reference under `torch.compile`; a
      reference that does not compile runs uncompiled, as `torch.compile` itself falls back to.
    - `of_limit`: mean, over the correct samples whose time was measured, of the share that their speed is of the
      machine's limit (`Verdict.bound_ms` over the kernel's time).
    - `reward`: mean of the composed reward.
    - `truncated`: share of samples that were cut off at the limit of tokens, of those whose end is known.
    - `tokens`: mean number of tokens of a completion; `tokens_per_solved`: all tokens over the number of tasks that a
      sample solves, with no upper end of the interval where the resamples in which nothing is solved are too many.
    """
    samples_T = _by_task(records, tasks)
    verdicts_T = [[record.verdict for record in samples] for samples in samples_T]
    correct_T = [[verdict.correct for verdict in verdicts] for verdicts in verdicts_T]
    correct = [verdict for verdicts in verdicts_T for verdict in verdicts if verdict.correct]
    untimed = bool(correct) and all(verdict.speedup is None for verdict in correct)
    figures = {name: _mean([[test(v) for v in verdicts] for verdicts in verdicts_T]) for name, test in RATES.items()}
    for k in settings.k:
        figures[f"pass@{k}"] = one_of_k(correct_T, k)
    figures |= _speedup_figures(verdicts_T, _over_eager, settings)
    logs_T = [[_log_speedup(v) for v in verdicts if v.speedup or not v.correct] for verdicts in verdicts_T]
    figures["speedup_all"] = _mean([[] for _ in logs_T] if untimed else logs_T, geometric=True)
    for k in settings.k:
        if k > 1:
            bests_T = [[best_of_k(logs, k)] if not untimed and len(logs) >= k else [] for logs in logs_T]
            figures[f"best@{k}"] = _mean(bests_T, geometric=True)
    if settings.compiled:
        over_compiled = _speedup_figures(verdicts_T, _over_compiled, settings)
        figures |= {
            f"{name}_compiled": it for name, it in over_compiled.items() if "@" not in name and name != "fast_0"
        }
    figures["of_limit"] = _mean(
        [
            [v.bound_ms / v.candidate_ms for v in verdicts if v.correct and v.bound_ms and v.candidate_ms]
            for verdicts in verdicts_T
        ]
    )
    figures["reward"] = _mean(
        [[record.reward for record in samples if record.reward is not None] for samples in samples_T]
    )
    ends_T = [[record.finish == "length" for record in samples if record.finish] for samples in samples_T]
    tokens_T = [[float(it.completion_tokens) for it in samples if it.completion_tokens] for samples in samples_T]
    figures["truncated"] = _mean(ends_T)
    figures["tokens"] = _mean(tokens_T)
    solved_T = np.array([bool(tokens and any(right)) for tokens, right in zip(tokens_T, correct_T, strict=True)])
    figures["tokens_per_solved"] = Figure(figures["tokens"].totals_T, solved_T.astype(np.float64))
    return figures | (settings.extra(samples_T, tasks, settings) if settings.extra else {})


def best_of_k(values: Sequence[float], k: int) -> float:
    """Mean of the largest of k values over all choices of k from n, without replacement.

    The i-th smallest value (from 1) is the largest of C(i-1, k-1) of the C(n, k) choices. Of logarithms of speedups
    with failures as 0 it is the logarithm of the speedup that k samples of a task give, if the best is kept.

    Raises:
        ValueError: unless 1 <= k <= n.
    """
    if not 1 <= k <= len(values):
        raise ValueError(f"the best of k needs 1 <= k <= n, got n={len(values)}, k={k}")
    chosen = (math.comb(index, k - 1) * value for index, value in enumerate(sorted(values)))
    return sum(chosen) / math.comb(len(values), k)


def summarize(records: Sequence[Record], tasks: Sequence[Task], settings: Settings) -> dict[str, Any]:
    """Counts and estimates of one policy, overall, per category and per level, and what they were made of task by task
    (in the order of the tasks), as JSON.

    Of a trajectory of several attempts, the best one counts."""
    records = best(records)
    by_task = compute_figures(records, tasks, settings)
    by_category: dict[str, list[Task]] = defaultdict(list)
    by_level: dict[str, list[Task]] = defaultdict(list)
    for task in tasks:
        by_category[task.category].append(task)
        if task.level is not None:
            by_level[str(task.level)].append(task)

    def describe(groups: dict[str, list[Task]]) -> dict[str, Any]:
        return {
            name: {"num_tasks": len(members), "figures": _estimate_all(records, members, settings)}
            for name, members in sorted(groups.items())
        }

    return {
        "num_tasks": len(tasks),
        "num_samples": len(records),
        "num_infrastructure": sum(record.verdict.status == "infrastructure" for record in records),
        "num_untimed": sum(record.verdict.correct and record.verdict.speedup is None for record in records),
        "num_left_out": {f"pass@{k}": int((by_task[f"pass@{k}"].counts_T == 0).sum()) for k in settings.k},
        "figures": _estimate_all(records, tasks, settings),
        "categories": describe(by_category),
        "levels": describe(by_level),
        "reasoning": by_reasoning_length(records, settings.bootstrap, settings.seed),
        "by_task": {
            name: {"totals": list(it.totals_T), "counts": list(it.counts_T), "geometric": it.geometric}
            for name, it in by_task.items()
        },
    }


def compare(
    after: Sequence[Record], before: Sequence[Record], tasks: Sequence[Task], settings: Settings
) -> dict[str, dict[str, float | None]]:
    """The change of every figure from one policy to another on the same tasks, as JSON; see `Figure.change_from`."""
    figures_after, figures_before = (compute_figures(records, tasks, settings) for records in (after, before))
    return {name: figure.change_from(figures_before[name], settings) for name, figure in figures_after.items()}


def _estimate_all(
    records: Sequence[Record], tasks: Sequence[Task], settings: Settings
) -> dict[str, dict[str, float | None]]:
    return {name: figure.estimate(settings) for name, figure in compute_figures(records, tasks, settings).items()}


def _speedup_figures(
    verdicts_T: Sequence[Sequence[Verdict]], over: Callable[[Verdict], Speedup | None], settings: Settings
) -> dict[str, Figure]:
    """`fast_p`, `fast_p@k` and `speedup` over a baseline."""
    figures = {}
    for p in settings.fast_p:
        fast_T = faster_than(p, verdicts_T, over)
        figures[f"fast_{p:g}"] = _mean(fast_T)
        if p > 0 and (k := max(settings.k, default=1)) > 1:
            figures[f"fast_{p:g}@{k}"] = one_of_k(fast_T, k)
    medians_T = [[found.median for v in verdicts if v.correct and (found := over(v))] for verdicts in verdicts_T]
    figures["speedup"] = _mean([list(map(math.log, medians)) for medians in medians_T], geometric=True)
    return figures


def _over_eager(verdict: Verdict) -> Speedup | None:
    return verdict.speedup


def _over_compiled(verdict: Verdict) -> Speedup | None:
    return verdict.speedup_compiled or verdict.speedup


def faster_than(
    p: float, verdicts_T: Sequence[Sequence[Verdict]], over: Callable[[Verdict], Speedup | None] = _over_eager
) -> list[list[bool]]:
    """Of each task, which samples are correct and more than p times as fast as the baseline, by the median.

    Nothing is known of any task, so that all lists are empty, where p > 0 and no correct sample was timed.
    """
    correct = [verdict for verdicts in verdicts_T for verdict in verdicts if verdict.correct]
    if p > 0 and correct and not any(over(verdict) for verdict in correct):
        return [[] for _ in verdicts_T]
    return [
        is_fast([v.correct for v in verdicts], [found.median if (found := over(v)) else None for v in verdicts], p)
        for verdicts in verdicts_T
    ]


def one_of_k(passed_T: Sequence[Sequence[bool]], k: int) -> Figure:
    """Chance that one of k samples passes, unbiased (Chen et al. 2021, eq. 1), mean over tasks with k samples."""
    return _mean([[pass_at_k(len(passed), sum(passed), k)] if len(passed) >= k else [] for passed in passed_T])


def _log_speedup(verdict: Verdict) -> float:
    return math.log(verdict.speedup.median) if verdict.correct and verdict.speedup else 0.0


def _by_task(records: Sequence[Record], tasks: Sequence[Task]) -> list[list[Record]]:
    """What is known about each task, in the order of the tasks."""
    samples: dict[str, list[Record]] = {task.id: [] for task in tasks}
    for record in best(records):
        if record.task_id in samples and record.verdict.status != "infrastructure":
            samples[record.task_id].append(record)
    return list(samples.values())


def _mean(values_T: Sequence[Sequence[float]], geometric: bool = False) -> Figure:
    return Figure(
        totals_T=np.array([sum(values) for values in values_T], dtype=np.float64),
        counts_T=np.array([len(values) for values in values_T], dtype=np.float64),
        geometric=geometric,
    )
