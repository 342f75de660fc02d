"""What is too good to be believed at once is judged again before anybody hears of it, and the less good verdict counts.

Source: CUDA-L1 (arXiv 2507.14111) measures again above 3x, or above twice the record of the task.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernelrl.errors import InfrastructureError, TaskError
from kernelrl.executor.api import ExecutorSettings
from kernelrl.verdict import Spent, Verdict

IMPLAUSIBLE = "implausible"
"""Rule that a kernel breaks which is faster than the machine allows (judging/bound.py)."""


class Retest:
    """Remembers the record of every task on this machine, and has what beats it by too much judged again.

    Args:
        settings: from which speedup on.
        measure_again: called before a kernel is judged again that is faster than the machine seems to allow.
    """

    def __init__(self, settings: ExecutorSettings, measure_again: Callable[[], None]):
        self._settings = settings
        self._measure_again = measure_again
        self._records: dict[str, float] = {}

    def __call__(self, task: str, judge: Callable[[], Verdict], judge_again: Callable[[], Verdict]) -> Verdict:
        """The verdict on a candidate of a task (its digest).

        Args:
            judge_again: on inputs that no candidate has met, so that what one has left for another is of no use.

        It is looked at until it is implausible twice, is correct twice where its speedup has to be measured again, or
        is anything else once. Where a further look fails for no fault of the candidate's, those before it count.

        Raises:
            TaskError, InfrastructureError: of the first look, or of one after none that was plausible.
        """
        looks = [judge()]
        while self._is_open(task, looks):
            try:
                if _is_implausible(looks[-1]):
                    self._measure_again()
                looks.append(judge_again())
            except (TaskError, InfrastructureError):
                plausible = [look for look in looks if not _is_implausible(look)]
                if not plausible:
                    raise
                return add_costs(plausible[0].model_copy(update={"final": False}), looks)
        verdict = looks[-1]
        if earlier := [look for look in looks[:-1] if look.correct]:
            verdict = settle(earlier[0], verdict)
        if verdict.correct and verdict.speedup is not None:
            self._records[task] = max(self._records.get(task, 0.0), verdict.speedup.median)
        if _is_implausible(verdict):  # until the machine shows higher speeds
            verdict = verdict.model_copy(update={"final": False})
        return add_costs(verdict, looks)

    def _is_open(self, task: str, looks: Sequence[Verdict]) -> bool:
        """Whether a further look is due."""
        if _is_implausible(looks[-1]):
            return sum(map(_is_implausible, looks)) < 2
        return sum(look.correct for look in looks) == 1 and self._is_wild(task, looks[-1])

    def _is_wild(self, task: str, verdict: Verdict) -> bool:
        """Whether a speedup is measured again before it is believed."""
        limit = self._settings.retest_above
        if limit is None or verdict.speedup is None:
            return False
        if (record := self._records.get(task)) is not None:
            limit = min(limit, self._settings.retest_over_record * record)
        return verdict.speedup.median > max(limit, 1.0)


def add_costs(verdict: Verdict, looks: Sequence[Verdict]) -> Verdict:
    """The verdict with the time of all judgements of its candidate."""
    spent = [look.spent for look in looks if look.spent is not None]
    sums = {name: sum(getattr(each, name) for each in spent) for name in Spent.model_fields}
    update = {"seconds": sum(look.seconds for look in looks), "spent": Spent(**sums) if spent else None}
    return verdict.model_copy(update=update)


def settle(first: Verdict, second: Verdict) -> Verdict:
    """The verdict that counts; it keeps the better speedup as `retest`."""
    if first.speedup is None or second.speedup is None:
        return second.model_copy(update={"retest": first.speedup})
    lower, higher = sorted((first.speedup, second.speedup), key=lambda speedup: speedup.median)
    verdict = first if lower is first.speedup else second
    return verdict.model_copy(update={"retest": higher})


def contradicts(verdict: Verdict) -> bool:
    """Whether the second look contradicted the first: not correct, or two intervals that have nothing in common."""
    if verdict.retest is None:
        return False
    return not verdict.correct or verdict.speedup is None or verdict.speedup.high < verdict.retest.low


def _is_implausible(verdict: Verdict) -> bool:
    return any(violation.rule == IMPLAUSIBLE for violation in verdict.violations)
