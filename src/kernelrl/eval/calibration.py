"""Are predicted probabilities true? Brier score, expected calibration error, and the bins of a reliability diagram.

N predictions `probabilities_N` (0 to 1) of outcomes `happened_N` (0 or 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

NUM_BINS = 10


@dataclass(frozen=True)
class Bin:
    """The predictions between two probabilities."""

    predicted: float
    """Their mean."""
    observed: float
    """Share of them that happened."""
    count: int


def brier(probabilities_N: ArrayLike, happened_N: ArrayLike) -> float:
    """Mean squared difference between probability and outcome (Brier 1950); NaN for no prediction."""
    p_N, y_N = np.asarray(probabilities_N, dtype=np.float64), np.asarray(happened_N, dtype=np.float64)
    return float(np.mean((p_N - y_N) ** 2)) if p_N.size else float("nan")


def signed_gaps(probabilities_N: ArrayLike, happened_N: ArrayLike) -> NDArray[np.float64]:
    """(N,) what each prediction adds to the calibration error: their mean is the expected calibration error.

    The error is `sum_b |sum_{i in b} (p_i - y_i)| / N` over ten bins of equal width (Naeini et al. 2015; Guo et al.
    2017, eq. 3). Written with the sign of each bin's sum, it is a mean over predictions: `s_b(i) (p_i - y_i)`.
    """
    p_N, y_N = np.asarray(probabilities_N, dtype=np.float64), np.asarray(happened_N, dtype=np.float64)
    gaps_N = p_N - y_N
    bins_N = _bins(p_N)
    signs_B = np.sign(np.bincount(bins_N, weights=gaps_N, minlength=NUM_BINS))
    signed_N: NDArray[np.float64] = signs_B[bins_N] * gaps_N
    return signed_N


def calibration_error(probabilities_N: ArrayLike, happened_N: ArrayLike) -> float:
    """The expected calibration error over ten bins of equal width; NaN for no prediction."""
    gaps_N = signed_gaps(probabilities_N, happened_N)
    return float(gaps_N.mean()) if gaps_N.size else float("nan")


def reliability(probabilities_N: ArrayLike, happened_N: ArrayLike) -> list[Bin]:
    """The bins that hold a prediction, lowest first."""
    p_N, y_N = np.asarray(probabilities_N, dtype=np.float64), np.asarray(happened_N, dtype=np.float64)
    bins_N = _bins(p_N)
    return [
        Bin(float(p_N[bins_N == index].mean()), float(y_N[bins_N == index].mean()), int((bins_N == index).sum()))
        for index in range(NUM_BINS)
        if (bins_N == index).any()
    ]


def _bins(p_N: NDArray[np.float64]) -> NDArray[np.int64]:
    """(N,) the bin of each probability; 1 is in the last one."""
    bins_N: NDArray[np.int64] = np.minimum((p_N * NUM_BINS).astype(np.int64), NUM_BINS - 1)
    return bins_N
