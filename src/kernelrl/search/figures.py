"""What a search found, what it cost, and how the best speedup grew with the budget, as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelrl.stats import ratio_interval
from kernelrl.strategies.budget import Budget, Spent
from kernelrl.strategies.protocol import Attempt
from kernelrl.strategies.runner import Outcome

UNITS = tuple(Budget.model_fields)
"""In which a budget is counted."""


def task_figures(outcome: Outcome) -> dict[str, Any]:
    """What came of one task: its best kernel, the attempts' statuses in order, and what they cost."""
    best = outcome.best
    return {
        "best": None if best is None else _kernel_figures(best),
        "attempts": [attempt.verdict.status for attempt in outcome.attempts],
        "logs": _best_logs(outcome.attempts),
        "spent": outcome.spent.to_json(),
        "dropped_turns": outcome.problem.dropped,
    }


def _kernel_figures(attempt: Attempt) -> dict[str, Any]:
    verdict = attempt.verdict
    return {
        "record": attempt.id,
        "turn": attempt.turn,
        "speedup": verdict.speedup.model_dump() if verdict.speedup else None,
        "candidate_ms": verdict.candidate_ms,
        "reference_ms": verdict.reference_ms,
        "bound_ms": verdict.bound_ms,
    }


def _best_logs(attempts: Sequence[Attempt]) -> list[float | None]:
    """After each attempt: log of the best kernel's speedup (lower bound), at least 0; None: none is right yet.

    Who has no faster kernel runs the reference. A right kernel that was not timed counts as 0.
    """
    logs: list[float | None] = []
    best: float | None = None
    for attempt in attempts:
        if attempt.verdict.correct:
            speedup = attempt.verdict.speedup
            best = max(best or 0.0, math.log(speedup.low) if speedup and speedup.low > 0 else 0.0)
        logs.append(best)
    return logs


def curve(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """How the search went: a point for each number of candidates per task.

    Each has the mean spent per task in every unit, the share of tasks with a right kernel (`solved`), and the geometric
    mean over all tasks of the best speedup so far (`speedup`; lower bound, at least 1). A task that ended earlier stays
    where it was.
    """
    most = max((len(outcome.attempts) for outcome in outcomes), default=0)
    logs_T = [_best_logs(outcome.attempts) for outcome in outcomes]
    points = []
    for number in range(1, most + 1):
        spent_T = [outcome.history[min(number, len(outcome.history)) - 1] for outcome in outcomes if outcome.history]
        now_T = [logs[min(number, len(logs)) - 1] if logs else None for logs in logs_T]
        points.append(
            {unit: _mean(spent_T, unit) for unit in UNITS}
            | {
                "attempts": number,
                "solved": float(np.mean([log is not None for log in now_T])),
                "speedup": math.exp(float(np.mean([log or 0.0 for log in now_T]))),
            }
        )
    return points


def _mean(spent_T: Sequence[Spent], unit: str) -> float | None:
    values = [getattr(spent, unit) for spent in spent_T]
    return None if None in values else float(np.mean(values))


def totals(outcomes: Sequence[Outcome]) -> dict[str, float | None]:
    """What the whole search cost, in every unit; None: not known."""
    found: dict[str, float | None] = {}
    for unit in UNITS:
        values = [getattr(outcome.spent, unit) for outcome in outcomes]
        found[unit] = None if None in values else float(sum(values))
    return found


def estimates(tasks: dict[str, Any], resamples: int, seed: int) -> dict[str, dict[str, float | None]]:
    """`solved` and `speedup_all` with 95 % bootstrap intervals over tasks."""
    logs = final_logs(tasks)
    solved = [float(log is not None) for log in logs]
    speedups = [log or 0.0 for log in logs]
    low, high = ratio_interval(solved, np.ones(len(logs)), resamples=resamples, seed=seed)
    log_low, log_high = ratio_interval(speedups, np.ones(len(logs)), resamples=resamples, seed=seed)
    return {
        "solved": _estimate(float(np.mean(solved)), low, high),
        "speedup_all": _estimate(math.exp(float(np.mean(speedups))), math.exp(log_low), math.exp(log_high)),
    }


def _estimate(value: float, low: float, high: float) -> dict[str, float | None]:
    """As JSON; of one task alone there is no interval."""
    return {name: None if math.isnan(it) else it for name, it in (("value", value), ("low", low), ("high", high))}


def final_logs(tasks: dict[str, Any]) -> list[float | None]:
    """Of each task, the last of its `logs`; None: no kernel is right."""
    return [task["logs"][-1] if task["logs"] else None for task in tasks.values()]
