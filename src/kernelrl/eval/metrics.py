"""Figures of a policy from its records, and the differences between policies. Runs nothing.

Records with status `infrastructure` say nothing about the policy and are left out (and counted).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelrl.eval.difficulty import by_reasoning_length
from kernelrl.eval.figure import Figure, Settings, mean, one_of_k, program_of, share_of_programs
from kernelrl.records import Record
from kernelrl.stats import is_fast
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


def compute_figures(records: Sequence[Record], tasks: Sequence[Task], settings: Settings) -> dict[str, Figure]:
    """All figures of one policy by name, task by task.

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
    - `tokens`: mean number of tokens of a completion; `tokens_per_solved`: all tokens over the number of programs that
      a sample solves, in all cases, with no upper end of the interval where the resamples in which nothing is solved
      are too many.
    """
    samples_T = _by_task(records, tasks)
    verdicts_T = [[record.verdict for record in samples] for samples in samples_T]
    correct_T = [[verdict.correct for verdict in verdicts] for verdicts in verdicts_T]
    correct = [verdict for verdicts in verdicts_T for verdict in verdicts if verdict.correct]
    untimed = bool(correct) and all(verdict.speedup is None for verdict in correct)
    figures = {
        name: mean([[test(v) for v in verdicts] for verdicts in verdicts_T], share=True) for name, test in RATES.items()
    }
    for k in settings.k:
        figures[f"pass@{k}"] = one_of_k(correct_T, k)
    figures |= _speedup_figures(verdicts_T, _over_eager, settings)
    logs_T = [[_log_speedup(v) for v in verdicts if v.speedup or not v.correct] for verdicts in verdicts_T]
    figures["speedup_all"] = mean([[] for _ in logs_T] if untimed else logs_T, geometric=True)
    for k in settings.k:
        if k > 1:
            bests_T = [[best_of_k(logs, k)] if not untimed and len(logs) >= k else [] for logs in logs_T]
            figures[f"best@{k}"] = mean(bests_T, geometric=True)
    if settings.compiled:
        over_compiled = _speedup_figures(verdicts_T, _over_compiled, settings)
        figures |= {
            f"{name}_compiled": it for name, it in over_compiled.items() if "@" not in name and name != "fast_0"
        }
    figures["of_limit"] = mean(
        [
            [v.bound_ms / v.candidate_ms for v in verdicts if v.correct and v.bound_ms and v.candidate_ms]
            for verdicts in verdicts_T
        ]
    )
    figures["reward"] = mean(
        [[record.reward for record in samples if record.reward is not None] for samples in samples_T]
    )
    ends_T = [[record.finish == "length" for record in samples if record.finish] for samples in samples_T]
    tokens_T = [[float(it.completion_tokens) for it in samples if it.completion_tokens] for samples in samples_T]
    figures["truncated"] = mean(ends_T, share=True)
    figures["tokens"] = mean(tokens_T)
    solved_T = _solved(samples_T, tasks) & (figures["tokens"].counts_T > 0)
    figures["tokens_per_solved"] = Figure(figures["tokens"].totals_T, solved_T.astype(np.float64), pooled=True)
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
    programs = [program_of(task) for task in tasks]
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
        "num_programs": len(set(programs)),
        "num_solved": int(_solved(_by_task(records, tasks), tasks).sum()),
        "num_left_out": {f"pass@{k}": _num_unknown(by_task[f"pass@{k}"]) for k in settings.k}
        | {name: _num_unknown(it.of_programs(programs)) for name, it in by_task.items() if it.by_program},
        "figures": {name: it.of_programs(programs).estimate(settings) for name, it in by_task.items()},
        "categories": describe(by_category),
        "levels": describe(by_level),
        "reasoning": by_reasoning_length(records, settings.bootstrap, settings.seed),
        "by_task": {
            name: {
                "totals": list(it.totals_T),
                "counts": list(it.counts_T),
                "geometric": it.geometric,
                "share": it.share,
                "pooled": it.pooled,
            }
            for name, it in by_task.items()
        },
    }


def compare(
    after: Sequence[Record], before: Sequence[Record], tasks: Sequence[Task], settings: Settings
) -> dict[str, dict[str, float | None]]:
    """The change of every figure from one policy to another on the same tasks, as JSON; see `Figure.change_from`."""
    figures_after, figures_before = (_over_programs(records, tasks, settings) for records in (after, before))
    return {name: figure.change_from(figures_before[name], settings) for name, figure in figures_after.items()}


def _estimate_all(
    records: Sequence[Record], tasks: Sequence[Task], settings: Settings
) -> dict[str, dict[str, float | None]]:
    return {name: figure.estimate(settings) for name, figure in _over_programs(records, tasks, settings).items()}


def _over_programs(records: Sequence[Record], tasks: Sequence[Task], settings: Settings) -> dict[str, Figure]:
    programs = [program_of(task) for task in tasks]
    return {name: it.of_programs(programs) for name, it in compute_figures(records, tasks, settings).items()}


def _num_unknown(figure: Figure) -> int:
    """Tasks, or programs, of which a figure knows nothing."""
    return int((figure.counts_T == 0).sum())


def _solved(samples_T: Sequence[Sequence[Record]], tasks: Sequence[Task]) -> NDArray[np.bool_]:
    """Whether the task is the first case of a program that a sample solves in every case."""
    programs = [program_of(task) for task in tasks]
    solved_T: NDArray[np.bool_] = share_of_programs(programs, samples_T, lambda it: it.correct).totals_T > 0
    return solved_T


def _speedup_figures(
    verdicts_T: Sequence[Sequence[Verdict]], over: Callable[[Verdict], Speedup | None], settings: Settings
) -> dict[str, Figure]:
    """`fast_p`, `fast_p@k` and `speedup` over a baseline."""
    figures = {}
    for p in settings.fast_p:
        fast_T = faster_than(p, verdicts_T, over)
        figures[f"fast_{p:g}"] = mean(fast_T, share=True)
        if p > 0 and (k := max(settings.k, default=1)) > 1:
            figures[f"fast_{p:g}@{k}"] = one_of_k(fast_T, k)
    medians_T = [[found.median for v in verdicts if v.correct and (found := over(v))] for verdicts in verdicts_T]
    figures["speedup"] = mean([list(map(math.log, medians)) for medians in medians_T], geometric=True)
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


def _log_speedup(verdict: Verdict) -> float:
    return math.log(verdict.speedup.median) if verdict.correct and verdict.speedup else 0.0


def _by_task(records: Sequence[Record], tasks: Sequence[Task]) -> list[list[Record]]:
    """What is known about each task, in the order of the tasks."""
    samples: dict[str, list[Record]] = {task.id: [] for task in tasks}
    for record in best(records):
        if record.task_id in samples and record.verdict.status != "infrastructure":
            samples[record.task_id].append(record)
    return list(samples.values())
