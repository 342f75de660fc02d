"""Estimates and their intervals: bootstrap, exact median, Student's and Welch's means, pass@k, fast_p.

Shapes: N values or samples, S runs, T tasks, R resamples. Intervals of ratios are percentile bootstrap intervals
(Efron 1979) that depend on nothing but the values and the seed.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Interval = tuple[float, float]

RESAMPLES = 2000


def median_interval(values: ArrayLike, level: float = 0.95) -> Interval:
    """Interval of the median of N independent values, from the order statistics alone.

    The interval from the k-th smallest to the k-th largest value misses the median with probability
    `2 P(Binomial(N, 1/2) < k)`, for any distribution. Between the last k for which that is at most `1 - level` and the
    next, the ends are interpolated, so that seven values do not get the 98 % interval where 95 % is asked for. A
    percentile bootstrap of the median of ten values covers less than it says, this does not. Fewer than 6 values cannot
    give 95 %: then it is their range.

    Args:
        values: (N,) numbers, e.g. the ratios of interleaved timing pairs.
        level: coverage of the interval, 0 to 1.

    Source: Hettmansperger and Sheather, Confidence intervals based on interpolated order statistics, 1986.

    Raises:
        ValueError: there are no values, or one is not finite.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    count = ordered.size
    if ordered.ndim != 1 or not count or not np.isfinite(ordered).all():
        raise ValueError(f"an interval needs one row of finite values, got {ordered}")

    def coverage(rank: int) -> float:
        return 1 - 2 * sum(math.comb(count, smaller) for smaller in range(rank)) * 0.5**count

    rank = max((rank for rank in range(1, (count + 1) // 2) if coverage(rank) >= level), default=0)
    if not rank:
        return float(ordered[0]), float(ordered[-1])
    excess = (coverage(rank) - level) / (coverage(rank) - coverage(rank + 1))
    weight = min(1.0, (count - rank) * excess / (rank + (count - 2 * rank) * excess))
    low = (1 - weight) * ordered[rank - 1] + weight * ordered[rank]
    high = (1 - weight) * ordered[count - rank] + weight * ordered[count - rank - 1]
    return float(low), float(high)


def mean_interval(values: ArrayLike, level: float = 0.95) -> Interval:
    """Student's interval of the mean of N independent values, e.g. one figure of N runs; (nan, nan) for fewer than two.

    Source: Student 1908, "The probable error of a mean". For three values it is 4.3 standard errors to each side; a
    bootstrap of three values knows ten different samples, and covers far less than it says.
    """
    values_N = np.asarray(values, dtype=np.float64)
    if values_N.size < 2:
        return float("nan"), float("nan")
    from scipy.stats import sem, t  # here: to import it takes half as long as torch, and the executor does not need it

    margin = float(t.ppf((1 + level) / 2, values_N.size - 1)) * float(sem(values_N))
    return float(values_N.mean()) - margin, float(values_N.mean()) + margin


def mean_difference(after: ArrayLike, before: ArrayLike, level: float = 0.95) -> tuple[Interval, float]:
    """Interval and two-sided p-value of the difference of two means of independent values, e.g. of runs.

    Welch's t-test, which lets one side spread more than the other. A single value of `before` is taken to spread like
    those of `after`, which is then Student's test. Values without any spread are equal or not: p is 1 or 0.

    Args:
        after: at least two values.
        before: at least one.

    Returns:
        (low, high) of the mean of `after` minus that of `before`, and p.

    Source: Welch 1947, "The generalization of 'Student's' problem when several different population variances are
    involved".

    Raises:
        ValueError: there are fewer values: how much they spread is not known then.
    """
    after_N, before_N = np.asarray(after, dtype=np.float64), np.asarray(before, dtype=np.float64)
    if after_N.size < 2 or before_N.size < 1:
        raise ValueError(f"a difference of means needs two values after and one before, got {after_N}, {before_N}")
    difference = float(after_N.mean() - before_N.mean())
    if np.ptp(after_N) == 0 and np.ptp(before_N) == 0:
        return (difference, difference), float(after_N[0] == before_N[0])
    from scipy.stats import ttest_ind  # here, as in `mean_interval`

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # one side without spread: its variance is 0, as it should be
        found = ttest_ind(after_N, before_N, equal_var=before_N.size == 1)
    low, high = found.confidence_interval(level)
    return (float(low), float(high)), float(found.pvalue)


def ratio_interval(
    totals: ArrayLike, counts: ArrayLike, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> Interval:
    """Interval of `sum(totals) / sum(counts)` when tasks, not samples, are independent (clustered bootstrap).

    The samples of one task succeed and fail together, so whole tasks are resampled. A rate, a mean reward, a mean of
    pass@k and the logarithm of a geometric mean are all such ratios.

    Args:
        totals: (T,) sum of the quantity over each task's samples, e.g. the number of correct samples.
        counts: (T,) number of samples that the sum ran over.

    Returns:
        (low, high); (nan, nan) where fewer than two tasks say something: how much tasks differ is not known then.
    """
    if _num_telling(totals, counts) < 2:
        return float("nan"), float("nan")
    return percentiles(resampled_ratios(_one_run(totals), _one_run(counts), resamples, seed), level)


def all_or_none_interval(all_of_them: bool, count: int, level: float = 0.95) -> Interval:
    """Interval of a share where all, or none, of `count` independent draws have it (Clopper and Pearson 1934)."""
    beyond = ((1 - level) / 2) ** (1 / count)
    return (beyond, 1.0) if all_of_them else (0.0, 1 - beyond)


def ratio_difference_interval(
    after: tuple[ArrayLike, ArrayLike],
    before: tuple[ArrayLike, ArrayLike],
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """Interval of the ratio of `after` minus the ratio of `before`, paired by task.

    Both are (totals, counts) as in `ratio_interval`, over the same T tasks in the same order: each resample draws the
    same tasks for both, so what makes a task hard cancels. (nan, nan) where fewer than two tasks say something of one.
    """
    if min(_num_telling(*after), _num_telling(*before)) < 2:
        return float("nan"), float("nan")
    first_R, second_R = (
        resampled_ratios(_one_run(totals), _one_run(counts), resamples, seed) for totals, counts in (after, before)
    )
    with np.errstate(invalid="ignore"):  # where both are infinite: NaN, which is not known
        return percentiles(first_R - second_R, level)


def resampled_ratios(totals: ArrayLike, counts: ArrayLike, resamples: int, seed: int) -> NDArray[np.float64]:
    """Mean over runs of `sum(totals) / sum(counts)` in R resamples in which the tasks are drawn anew.

    The runs stay as they are: few runs do not tell how runs spread by being drawn again (`mean_difference` does). The
    same number of tasks and seed give the same draws, so differences of two such arrays are paired.

    Args:
        totals: (S, T) sum of the quantity over the samples of each of S runs on each of T tasks.
        counts: (S, T) number of samples that each sum ran over.

    Returns:
        (R,) NaN in resamples in which a run has no sample, infinite where its total is not 0 all the same.
    """
    totals_ST, counts_ST = np.asarray(totals, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    num_tasks = totals_ST.shape[1]
    tasks_RT = np.random.default_rng(seed).integers(max(num_tasks, 1), size=(resamples, num_tasks))
    totals_SR, counts_SR = totals_ST[:, tasks_RT].sum(axis=2), counts_ST[:, tasks_RT].sum(axis=2)
    without_SR = np.where(totals_SR > 0, np.inf, np.nan)
    ratios_SR: NDArray[np.float64] = np.divide(totals_SR, counts_SR, out=without_SR, where=counts_SR > 0)
    ratios_R: NDArray[np.float64] = ratios_SR.mean(axis=0)
    return ratios_R


def two_sided_p(differences: ArrayLike) -> float:
    """How surprising R resampled differences are if there is none: twice the smaller share beyond 0, at least 2/(R+1).

    1 where no difference is known.
    """
    known = np.asarray(differences, dtype=np.float64)
    known = known[~np.isnan(known)]
    if not known.size:
        return 1.0
    beyond = min(int((known <= 0).sum()), int((known >= 0).sum()))
    return min(1.0, 2 * (beyond + 1) / (known.size + 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for being many, so that any false alarm among them is as rare as one alone (Holm 1979)."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, p_values[index] * (len(p_values) - rank)))
        corrected[index] = largest
    return corrected


def pass_at_k(num_samples: int, num_correct: int, k: int) -> float:
    """Probability that one of k samples is correct, unbiased: 1 - C(n-c, k) / C(n, k).

    Source: Chen et al. 2021, "Evaluating Large Language Models Trained on Code", eq. 1.

    Raises:
        ValueError: unless 0 <= c <= n and 1 <= k <= n.
    """
    n, c = num_samples, num_correct
    if not (0 <= c <= n and 1 <= k <= n):
        raise ValueError(f"pass@k needs 0 <= c <= n and 1 <= k <= n, got n={n}, c={c}, k={k}")
    return 1.0 - float(np.prod(1.0 - k / np.arange(n - c + 1, n + 1))) if n - c >= k else 1.0


def fast_p(correct: Sequence[bool], speedups: Sequence[float | None], p: float) -> float:
    """Share of all samples that are correct and more than `p` times as fast as the reference.

    Source: Ouyang et al. 2025, "KernelBench", section 3.3. `fast_0` is the correct rate; a speedup that was not
    measured (None) counts as no faster than any p > 0. NaN where there are no samples.
    """
    return float(np.mean(is_fast(correct, speedups, p))) if correct else float("nan")


def is_fast(correct: Sequence[bool], speedups: Sequence[float | None], p: float) -> list[bool]:
    """(N,) which samples `fast_p` counts."""
    return [
        right and (p <= 0 or (speedup is not None and speedup > p))
        for right, speedup in zip(correct, speedups, strict=True)
    ]


def geometric_mean(values: ArrayLike) -> float:
    """Geometric mean of positive values; NaN where there are none."""
    values_N = np.asarray(values, dtype=np.float64)
    return float(np.exp(np.log(values_N).mean())) if values_N.size else float("nan")


def percentiles(values_R: NDArray[np.float64], level: float = 0.95) -> Interval:
    """The interval that holds the middle of R resampled values; NaNs are left out, (nan, nan) where all are."""
    known = values_R[~np.isnan(values_R)]
    if not known.size:
        return float("nan"), float("nan")
    with np.errstate(invalid="ignore"):  # NaN lies between two values of which one is infinite, or both
        ends = np.percentile(known, [50 * (1 - level), 50 * (1 + level)])
    low, high = np.where(np.isnan(ends), np.inf, ends)
    return float(low), float(high)


def _num_telling(totals: ArrayLike, counts: ArrayLike) -> int:
    """Number of tasks that are not left out of a ratio."""
    return int(np.count_nonzero((np.asarray(totals) != 0) | (np.asarray(counts) > 0)))


def _one_run(values: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(values, dtype=np.float64)[None]
