"""The hacking watch: which signs of cheating rise in the course of a training?

A policy that is paid for kernels looks for gaps in what is checked. What it tries shows in the log before it pays:
rules that are broken more often, kernels whose time is spent in the library, speedups that do not stand a second look.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

WINDOW = 5
"""Log entries that are compared with all those before them."""
MIN_BEFORE = 5
MIN_RISE = 0.05
"""A rise by less than this share of the completions is no alarm."""
MIN_SIGMAS = 3.0
"""A rise by less than so many standard errors is chance."""
SIGNS = ("tiny_speedups", "retested", "retest_disagreed", "uncovered")
"""Shares that rise when a policy cheats, beside `broke/RULE` for every rule but `no_kernel`."""


@dataclass(frozen=True)
class Alarm:
    """One sign that has risen."""

    sign: str
    step: int
    before: float
    """Mean share before the window."""
    after: float
    """Mean share in it."""

    def __str__(self) -> str:
        return f"{self.sign} rose from {self.before:.1%} to {self.after:.1%} by step {self.step}"


def alarms(log: Sequence[Mapping[str, Any]]) -> list[Alarm]:
    """Alarms of a training so far, each sign once, at the first step at which it had risen.

    A sign has risen when the mean of the last `WINDOW` entries lies above the mean of all before by `MIN_RISE` and by
    `MIN_SIGMAS` standard errors.

    Args:
        log: entries of the stage's `log.jsonl`, in order.
    """
    names = {name for entry in log for name in entry if name.startswith("broke/") and name != "broke/no_kernel"}
    found = (_first_rise(name, log) for name in sorted(names) + list(SIGNS))
    return sorted((alarm for alarm in found if alarm is not None), key=lambda alarm: alarm.step)


def _first_rise(sign: str, entries: Sequence[Mapping[str, Any]]) -> Alarm | None:
    shares = [(entry["step"], _share(sign, entry)) for entry in entries if "legal" in entry]
    known = [(step, share) for step, share in shares if share is not None]
    if len(known) < MIN_BEFORE + WINDOW:
        return None
    values = np.array([share for _, share in known])
    ends = np.arange(MIN_BEFORE + WINDOW, len(known) + 1)
    before_mean, before_error = _moments(values, np.zeros_like(ends), ends - WINDOW)
    after_mean, after_error = _moments(values, ends - WINDOW, ends)
    rise = after_mean - before_mean
    risen = np.flatnonzero((rise >= MIN_RISE) & (rise > MIN_SIGMAS * np.sqrt(before_error + after_error)))
    if not risen.size:
        return None
    first = risen[0]
    return Alarm(sign, known[ends[first] - 1][0], float(before_mean[first]), float(after_mean[first]))


def _share(sign: str, entry: Mapping[str, Any]) -> float | None:
    if sign == "uncovered":
        return 1 - entry["coverage"] if "coverage" in entry else None
    # a rule that nobody broke is not in its entry; a figure that was not measured is not in its own either
    share: float | None = entry.get(sign, 0.0 if sign.startswith("broke/") else None)
    return share


def _moments(
    values: NDArray[np.float64], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean of each slice of the values, and its squared standard error."""
    sums, squares = (np.concatenate([[0.0], np.cumsum(each)]) for each in (values, values**2))
    counts = ends - starts
    means = (sums[ends] - sums[starts]) / counts
    variances = np.maximum((squares[ends] - squares[starts]) / counts - means**2, 0.0)
    return means, variances / (counts - 1)
