"""Does a policy think longer where it fails? Correctness by the length of the reasoning.

ConCuR (arXiv 2510.07356) takes the length of a correct sample's reasoning for the difficulty of its task.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelrl.candidate import Completion
from kernelrl.records import Record
from kernelrl.stats import percentiles

NUM_BINS = 5
MIN_TASKS = 3
"""Of fewer tasks there is no correlation worth the name."""


def by_reasoning_length(records: Sequence[Record], resamples: int, seed: int) -> dict[str, Any]:
    """How the length of the reasoning (in words) goes with correctness, as JSON; infrastructure verdicts are left out.

    - `correlation`: Spearman's, over tasks, of the mean length and the share of correct samples, with a 95 % bootstrap
      interval that resamples tasks; None where all tasks have the same length or the same share.
    - `bins`: the samples in five groups of one size, the shortest first: mean `words`, `samples`, share `correct`.
    """
    told = [record for record in records if record.verdict.status != "infrastructure"]
    words_N = np.array([len(Completion.parse(record.completion).reasoning.split()) for record in told], dtype=float)
    correct_N = np.array([record.verdict.correct for record in told], dtype=float)
    samples = defaultdict(list)
    for index, record in enumerate(told):
        samples[record.task_id].append(index)
    words_T = np.array([words_N[indices].mean() for indices in samples.values()])
    correct_T = np.array([correct_N[indices].mean() for indices in samples.values()])
    groups = [group for group in np.array_split(np.argsort(words_N, kind="stable"), NUM_BINS) if group.size]
    return {
        "correlation": _correlation(words_T, correct_T, resamples, seed),
        "bins": [
            {"words": float(words_N[it].mean()), "samples": int(it.size), "correct": float(correct_N[it].mean())}
            for it in groups
        ],
    }


def _correlation(
    words_T: NDArray[np.float64], correct_T: NDArray[np.float64], resamples: int, seed: int
) -> dict[str, float | None]:
    num_tasks = len(words_T)
    if num_tasks < MIN_TASKS or not np.ptp(words_T) or not np.ptp(correct_T):
        return dict.fromkeys(("value", "low", "high"))
    picks_RT = np.random.default_rng(seed).integers(num_tasks, size=(resamples, num_tasks))
    low, high = percentiles(_spearman(words_T[picks_RT], correct_T[picks_RT]))
    return {"value": float(_spearman(words_T[None], correct_T[None])[0]), "low": low, "high": high}


def _spearman(first_RT: NDArray[np.float64], second_RT: NDArray[np.float64]) -> NDArray[np.float64]:
    """(R,) rank correlation of each row; NaN where a row of either does not vary."""
    from scipy.stats import rankdata  # here, as in `stats.mean_interval`

    first_RT, second_RT = (rankdata(values, axis=1) for values in (first_RT, second_RT))
    first_RT, second_RT = (values - values.mean(axis=1, keepdims=True) for values in (first_RT, second_RT))
    scale_R = np.sqrt((first_RT**2).sum(axis=1) * (second_RT**2).sum(axis=1))
    covariance_R = (first_RT * second_RT).sum(axis=1)
    correlation_R: NDArray[np.float64] = np.divide(
        covariance_R, scale_R, out=np.full(len(scale_R), np.nan), where=scale_R > 0
    )
    return correlation_R
