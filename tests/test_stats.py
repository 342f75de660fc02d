"""Estimates and intervals against hand-computed values and known coverage."""

import warnings
from itertools import combinations
from math import isnan

import numpy as np
import pytest

from kernelrl.stats import (
    fast_p,
    geometric_mean,
    holm,
    mean_difference,
    mean_interval,
    median_interval,
    pass_at_k,
    percentiles,
    ratio_difference_interval,
    ratio_interval,
    resampled_ratios,
    two_sided_p,
)


def test_interval_holds_the_median():
    ratios = [1.1, 1.2, 1.15, 1.18, 1.22, 1.3, 1.05]
    low, high = median_interval(ratios)
    assert 1.05 <= low <= np.median(ratios) <= high <= 1.3
    assert median_interval(ratios, level=0.5)[0] >= low


@pytest.mark.parametrize(
    ("count", "level", "distance"),
    [
        (7, 0.95, 11 / 15),  # between the first, which covers 63/64, and the second, which covers 7/8
        (7, 63 / 64, 0.0),
        (6, 0.95, 5 / 14),
        (15, 0.5, 5.734952),
        (3, 0.1, 13 / 14),
        (5, 0.95, 0.0),  # too few: their range
        (2, 0.1, 0.0),
    ],
)
def test_the_ends_of_the_interval_lie_between_order_statistics(count, level, distance):
    """Of the values 0, 1, …: computed by hand from the binomial distribution."""
    assert median_interval(np.arange(count), level) == pytest.approx((distance, count - 1 - distance), abs=1e-6)


def test_interval_of_equal_values_is_that_value():
    assert median_interval([2.0] * 9) == (2.0, 2.0)
    assert median_interval([2.0]) == (2.0, 2.0)


@pytest.mark.parametrize("bad", [[], [1.0, float("nan")], [float("inf")], [[1.0], [2.0]]])
def test_interval_refuses_what_it_cannot_use(bad):
    with pytest.raises(ValueError, match="finite"):
        median_interval(bad)


@pytest.mark.parametrize("size", [7, 15, 30])
@pytest.mark.parametrize(("draw", "median"), [("standard_cauchy", 0.0), ("standard_exponential", np.log(2))])
def test_interval_covers_the_truth_as_often_as_it_says(size, draw, median):
    rng = np.random.default_rng(1)
    intervals = [median_interval(getattr(rng, draw)(size)) for _ in range(2000)]
    assert 0.935 <= np.mean([low <= median <= high for low, high in intervals]) <= 0.965


def test_ratio_interval_resamples_tasks_not_samples():
    """Ten tasks, each all right or all wrong: 100 samples carry the information of 10."""
    totals, counts = [10, 0] * 5, [10] * 10
    low, high = ratio_interval(totals, counts)
    independent_low, independent_high = ratio_interval([1, 0] * 50, [1] * 100)
    assert high - low > 2.5 * (independent_high - independent_low)
    assert low < 0.5 < high


def test_ratio_intervals_depend_on_the_level_and_on_nothing_that_is_left_to_chance():
    run, other = ([3, 1, 4, 1, 5], [6] * 5), ([2, 2, 3, 0, 4], [6] * 5)
    for interval in (
        lambda **how: ratio_interval(*run, **how),
        lambda **how: ratio_difference_interval(run, other, **how),
    ):
        (low, high), (inner_low, inner_high) = interval(), interval(level=0.5)
        assert low < inner_low < inner_high < high
        assert interval() == (low, high)


def test_ratio_interval_with_missing_samples():
    assert ratio_interval([1, 0, 1], [1, 0, 1]) == (1.0, 1.0)
    assert all(isnan(bound) for bound in ratio_interval([0, 0], [0, 0]))
    assert all(isnan(bound) for bound in ratio_interval([], []))


def test_one_task_alone_has_no_interval():
    one, two = ([3, 0], [4, 0]), ([3, 4], [4, 4])
    assert all(isnan(bound) for bound in ratio_interval(*one))
    assert all(isnan(bound) for pair in ((one, two), (two, one)) for bound in ratio_difference_interval(*pair))
    assert not any(isnan(bound) for bound in ratio_difference_interval(two, two))
    low, high = ratio_interval([90, 10], [1, 0])  # 100 tokens for one solved task: the other one says something too
    assert low < high


@pytest.mark.filterwarnings("error")
def test_what_is_infinite_on_both_sides_tells_no_difference():
    unsolved = ([90, 90], [0, 0])  # tokens for each solved task, of which there are none
    assert all(isnan(bound) for bound in ratio_difference_interval(unsolved, unsolved))


def test_paired_difference_is_narrower_than_the_tasks_are_different():
    """Task difficulty spans 0 to 1, and every task gains exactly one sample in ten."""
    before = (np.arange(10), np.full(10, 10))
    after = (np.arange(10) + 1, np.full(10, 10))
    assert ratio_difference_interval(after, before) == pytest.approx((0.1, 0.1))
    low, high = ratio_interval(*before)
    assert high - low > 0.2


@pytest.mark.parametrize(("n", "c", "k"), [(1, 0, 1), (4, 1, 2), (5, 2, 3), (6, 6, 1), (6, 5, 2), (7, 0, 7), (8, 3, 8)])
def test_pass_at_k_is_the_share_of_subsets_with_a_hit(n, c, k):
    subsets = list(combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))


@pytest.mark.parametrize(("n", "c", "k"), [(3, 4, 1), (3, 1, 4), (3, 1, 0), (0, 0, 1), (3, -1, 1)])
def test_pass_at_k_refuses_impossible_counts(n, c, k):
    with pytest.raises(ValueError, match="pass@k needs"):
        pass_at_k(n, c, k)


def test_fast_p_counts_correct_and_strictly_faster_samples():
    correct = [True, True, True, False, True]
    speedups = [0.5, 1.0, 1.6, 9.0, None]
    assert fast_p(correct, speedups, 0) == pytest.approx(4 / 5)
    assert fast_p(correct, speedups, 1) == pytest.approx(1 / 5)
    assert fast_p(correct, speedups, 2) == 0
    assert isnan(fast_p([], [], 1))


def test_percentiles_hold_the_middle_and_leave_out_what_is_not_known():
    values = np.array([*range(101), np.nan], dtype=np.float64)
    assert percentiles(values) == pytest.approx((2.5, 97.5))
    assert percentiles(values, level=0.5) == pytest.approx((25, 75))
    assert all(isnan(bound) for bound in percentiles(values[-1:]))


def test_geometric_mean():
    assert geometric_mean([0.5, 2.0]) == pytest.approx(1.0)
    assert isnan(geometric_mean([]))


def test_tasks_are_drawn_alike_for_all_runs():
    """Two tasks: a resample has the first one, both, or the second one. The mean is over the runs' own ratios."""
    drawn = resampled_ratios([[8, 0], [2, 0]], [[10, 10], [2, 2]], 200, seed=0)
    assert set(np.round(drawn, 6)) == {0.9, 0.45, 0.0}


def test_the_difference_of_few_values_is_welchs():
    """Two spreads alike: four degrees of freedom, quantile 2.776. One side without spread: the other's two, 4.303."""
    (low, high), p = mean_difference([4.0, 5.0, 6.0], [1.0, 2.0, 3.0])
    assert (low, high) == pytest.approx((3 - 2.7764 * np.sqrt(2 / 3), 3 + 2.7764 * np.sqrt(2 / 3)), rel=1e-4)
    assert p == pytest.approx(0.02131, abs=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (low, high), p = mean_difference([2.0, 3.0, 4.0], [1.0, 1.0])
    assert (low, high) == pytest.approx((2 - 4.3027 / np.sqrt(3), 2 + 4.3027 / np.sqrt(3)), rel=1e-4)
    assert p == pytest.approx(1 - np.sqrt(12 / 14))


def test_a_single_value_spreads_like_the_others():
    """Three values and one, by Student: variance 1, standard error sqrt(1/3 + 1), two degrees of freedom."""
    (low, high), p = mean_difference([1.0, 2.0, 3.0], [0.0])
    assert (low, high) == pytest.approx((2 - 4.3027 * np.sqrt(4 / 3), 2 + 4.3027 * np.sqrt(4 / 3)), rel=1e-4)
    assert p == pytest.approx(1 - np.sqrt(3 / 5))
    assert mean_difference([1.0, 1.0], [1.0]) == ((0.0, 0.0), 1.0)
    assert mean_difference([2.0, 2.0], [1.0, 1.0]) == ((1.0, 1.0), 0.0)
    with pytest.raises(ValueError, match="needs two values after and one before"):
        mean_difference([1.0], [1.0, 2.0])


def test_p_values_by_hand():
    assert two_sided_p([1.0] * 999) == pytest.approx(2 / 1000)
    assert two_sided_p([0.0] * 99) == 1.0
    assert two_sided_p([-1.0, 1.0] * 50) == 1.0
    assert two_sided_p([float("nan")]) == 1.0


def test_holm_by_hand():
    """0.01 x 4, 0.02 x 3, 0.03 x 2 (never below the one before), 0.5 x 1."""
    assert holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert holm([0.4, 0.6]) == pytest.approx([0.8, 0.8]) and holm([]) == []
    assert holm([0.7, 0.6]) == [1.0, 1.0]


def test_the_interval_of_a_mean_of_few_values_is_students():
    """Student's quantile of two degrees of freedom is 4.303."""
    low, high = mean_interval([1.0, 2.0, 3.0])
    assert (low, high) == pytest.approx((2 - 4.3027 / np.sqrt(3), 2 + 4.3027 / np.sqrt(3)), rel=1e-4)
    low, high = mean_interval([1.0, 2.0, 3.0], level=0.5)
    assert (low, high) == pytest.approx((2 - 0.8165 / np.sqrt(3), 2 + 0.8165 / np.sqrt(3)), rel=1e-4)
    assert mean_interval([2.0, 2.0]) == (2.0, 2.0)
    assert all(isnan(bound) for bound in mean_interval([1.0]))
