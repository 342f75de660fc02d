"""What is too good to be believed at once is judged twice, and the less good verdict counts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kernelrl.errors import InfrastructureError, TaskError
from kernelrl.executor import ExecutorSettings
from kernelrl.executor.judging.retest import IMPLAUSIBLE, Retest, contradicts
from kernelrl.rewards.speedup import measured
from kernelrl.verdict import Speedup, Spent, Verdict, Violation

COMMON = {"task_id": "relu2", "candidate": "c", "dialect": "cpp", "device": "cpu"}


def timed(low: float, median: float, high: float) -> Verdict:
    speedup = Speedup(median=median, low=low, high=high, pairs=9)
    return Verdict(**COMMON, status="correct", stage="correct", speedup=speedup)  # type: ignore[arg-type]


WRONG = Verdict(**COMMON, status="incorrect", stage="ran")  # type: ignore[arg-type]
TOO_FAST = Verdict(
    **COMMON,  # type: ignore[arg-type]
    status="illegal",
    stage="ran",
    violations=(Violation(rule=IMPLAUSIBLE, evidence="1 ms, where reading alone takes 3 ms here"),),
)


class Script:
    """Judgements that are given, one after the other."""

    def __init__(self, *verdicts: Verdict | Exception):
        self.verdicts = list(verdicts)
        self.measured_again = 0

    def judge(self) -> Verdict:
        verdict = self.verdicts.pop(0)
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    def measure_again(self) -> None:
        self.measured_again += 1

    def settled(self, above: float | None = 3.0) -> Verdict:
        retest = Retest(ExecutorSettings(retest_above=above, retest_over_record=2.0), self.measure_again)
        verdict = retest("task", self.judge, self.judge)
        assert not self.verdicts, "all were asked for"
        return verdict


def speedups(verdict: Verdict) -> tuple[float | None, float | None]:
    return (verdict.speedup and verdict.speedup.median, verdict.retest and verdict.retest.median)


def test_a_speedup_above_the_limit_is_measured_again_and_the_lower_one_counts() -> None:
    assert speedups(Script(timed(3.5, 4.0, 4.5), timed(3.0, 3.4, 3.8)).settled()) == (3.4, 4.0)
    assert speedups(Script(timed(3.5, 4.0, 4.5), timed(6.0, 7.0, 8.0)).settled()) == (4.0, 7.0)
    assert speedups(Script(timed(1.9, 2.0, 2.1)).settled()) == (2.0, None)


def test_a_second_look_that_contradicts_the_first_is_told() -> None:
    wrong = Script(timed(17, 18, 19), WRONG).settled()
    assert not wrong.correct and contradicts(wrong)
    assert contradicts(Script(timed(17, 18, 19), timed(0.9, 1.0, 1.1)).settled())
    assert not contradicts(Script(timed(3.5, 4.0, 4.5), timed(3.0, 3.6, 3.8)).settled())
    assert not contradicts(timed(1, 1, 1))


def test_twice_the_tasks_record_is_measured_again() -> None:
    retest = Retest(ExecutorSettings(), Script().measure_again)

    def judge(*verdicts: Verdict) -> tuple[Callable[[], Verdict], Callable[[], Verdict]]:
        script = Script(*verdicts)
        return script.judge, script.judge

    retest("task", *judge(timed(1.1, 1.2, 1.3)))
    assert speedups(retest("task", *judge(timed(2.4, 2.5, 2.6), timed(2.1, 2.2, 2.3)))) == (2.2, 2.5)
    assert speedups(retest("other task", *judge(timed(2.4, 2.5, 2.6)))) == (2.5, None)


def test_faster_than_the_machine_allows_twice_is_not_believed() -> None:
    script = Script(TOO_FAST, TOO_FAST)
    verdict = script.settled()
    assert script.measured_again == 1, "the machine may have been measured badly"
    assert verdict.status == "illegal" and not verdict.correct and measured(verdict, "median") is None


def test_faster_than_the_machine_seemed_to_allow_once_is_a_matter_of_the_machine() -> None:
    script = Script(TOO_FAST, timed(2.4, 2.5, 2.6))
    verdict = script.settled()
    assert script.measured_again == 1 and speedups(verdict) == (2.5, None)


def test_nothing_too_good_is_settled_by_one_look() -> None:
    wild, lower = timed(9, 10, 11), timed(3.0, 3.5, 4.0)
    assert speedups(Script(TOO_FAST, wild, lower).settled()) == (3.5, 10)
    for looks in ((lower, TOO_FAST, TOO_FAST), (TOO_FAST, wild, TOO_FAST)):
        script = Script(*looks)
        assert script.settled().status == "illegal" and script.measured_again
    assert speedups(Script(lower, TOO_FAST, wild).settled()) == (3.5, 10)
    assert not Script(lower, TOO_FAST, WRONG).settled().correct


def test_faster_than_the_machine_allows_is_not_remembered_because_it_may_show_higher_speeds() -> None:
    assert not Script(TOO_FAST, TOO_FAST).settled().final
    assert Script(timed(3.5, 4.0, 4.5), timed(3.0, 3.4, 3.8)).settled().final


@pytest.mark.parametrize("error", [TaskError("the reference does not run"), InfrastructureError("no memory")])
def test_a_second_look_that_fails_leaves_the_first_which_is_not_remembered(error: Exception) -> None:
    verdict = Script(timed(3.5, 4.0, 4.5), error).settled()
    assert speedups(verdict) == (4.0, None) and not verdict.final
    with pytest.raises(type(error)):
        Script(TOO_FAST, error).settled()


def test_no_speedup_is_measured_again_where_nobody_wants_it() -> None:
    assert speedups(Script(timed(9, 10, 11)).settled(above=None)) == (10, None)
    assert Script(TOO_FAST, TOO_FAST).settled(above=None).status == "illegal"


def test_the_time_of_all_looks_is_told() -> None:
    spent = Spent(waiting=1, reference=0.5, timed=2, calls=0.25)
    looks = [each.model_copy(update={"seconds": 4.0, "spent": spent}) for each in (timed(9, 10, 11), timed(3, 4, 5))]
    verdict = Script(*looks).settled()
    assert verdict.seconds == 8.0 and verdict.spent == Spent(waiting=2, reference=1, timed=4, calls=0.5)
