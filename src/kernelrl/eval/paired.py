"""Is one policy better than another on the same tasks? Paired tests over tasks, corrected for being many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import permutation_test

from kernelrl.errors import UserError
from kernelrl.eval.figure import Figure, Settings
from kernelrl.eval.results import PolicyResults, Results
from kernelrl.eval.table import LOWER_IS_BETTER
from kernelrl.stats import holm

RESAMPLES = 9999


@dataclass(frozen=True)
class Contender:
    """A policy of some results."""

    name: str
    results: Results
    policy: PolicyResults


@dataclass(frozen=True)
class Row:
    """One figure of one contender against the baseline's."""

    figure: str
    geometric: bool
    """Whether the change is a quotient."""
    contender: str
    before: dict[str, float | None]
    """The baseline's estimate over the tasks compared."""
    after: dict[str, float | None]
    change: dict[str, float | None]
    """What `p` is of, see `Figure.change_from`, with its 95 % interval (not corrected)."""
    p: float | None
    """Two-sided, of the permutation test; None: fewer than two tasks measure it for both."""
    p_holm: float | None
    """Corrected for all rows."""

    def worse(self, alpha: float) -> bool:
        """Whether the contender is significantly worse."""
        return self.p_holm is not None and self.p_holm < alpha and self._direction < 0

    def better(self, alpha: float) -> bool:
        """Whether the contender is significantly better."""
        return self.p_holm is not None and self.p_holm < alpha and self._direction > 0

    @property
    def _direction(self) -> float:
        change, none = self.change["value"], 1.0 if self.geometric else 0.0
        difference = 0.0 if change is None else change - none
        return -difference if self.figure in LOWER_IS_BETTER else difference


def shared_tasks(contenders: Sequence[Contender]) -> list[str]:
    """Names of the tasks that all of them were evaluated on, in the first one's order, as `_names` has them."""
    common = set.intersection(*(set(_names(it.results)) for it in contenders))
    return [name for name in _names(contenders[0].results) if name in common]


def _names(results: Results) -> list[str]:
    """Each task's digest; the id too where several tasks have one program, as those of `surge` and `transpile` do."""
    number = Counter(task.digest for task in results.tasks)
    return [task.digest if number[task.digest] == 1 else f"{task.digest} {task.id}" for task in results.tasks]


def compare(contenders: Sequence[Contender], figures: Sequence[str], settings: Settings) -> list[Row]:
    """Every contender against the first one, over the tasks that all share.

    Raises:
        UserError: no task is shared, or one of the results lacks a figure; says which there are.
    """
    baseline, *others = contenders
    shared = shared_tasks(contenders)
    if not shared:
        raise UserError(f"{' and '.join(it.name for it in contenders)} have no task in common: nothing to compare")
    rows: list[tuple[str, str, Figure, Figure]] = []
    for figure in figures:
        before = _over(baseline, figure, shared)
        rows += [(figure, other.name, before, _over(other, figure, shared)) for other in others]
    p_values = [sign_flip_p(after, before, settings.seed) for _, _, before, after in rows]
    tested = [index for index, p in enumerate(p_values) if p is not None]
    corrected = dict(zip(tested, holm([p for p in p_values if p is not None]), strict=True))
    return [
        Row(
            figure=figure,
            geometric=after.geometric,
            contender=name,
            before=before.estimate(settings),
            after=after.estimate(settings),
            change=after.change_from(before, settings),
            p=p_values[index],
            p_holm=corrected.get(index),
        )
        for index, (figure, name, before, after) in enumerate(rows)
    ]


def sign_flip_p(after: Figure, before: Figure, seed: int) -> float | None:
    """Two-sided p-value of the mean over tasks of the differences between the two means of a task.

    If there were no difference between the policies, each task's difference would be as likely to have the other sign:
    all choices of signs are tried where there are fewer than `RESAMPLES`, else so many are drawn. Only tasks that both
    measure count. None: fewer than two of them, or the figure is pooled and has no means of tasks.

    Source: Fisher 1935, "The Design of Experiments", section 21.
    """
    means = tuple(it.totals_T for it in after.means_with(before))
    if after.pooled or len(means[0]) < 2:
        return None

    def difference(first: NDArray[np.float64], second: NDArray[np.float64], axis: int) -> Any:
        return (first - second).mean(axis=axis)

    outcome = permutation_test(
        means, difference, permutation_type="samples", vectorized=True, n_resamples=RESAMPLES, batch=512, rng=seed
    )
    return float(outcome.pvalue)


def _over(contender: Contender, figure: str, names: Sequence[str]) -> Figure:
    """A figure over the programs whose cases some tasks are, in their order."""
    if figure not in contender.policy.by_task:
        raise UserError(f"{contender.name}: no figure {figure!r}; it has {', '.join(contender.policy.by_task)}")
    whole = contender.policy.by_task[figure].figure()
    places = {name: index for index, name in enumerate(_names(contender.results))}
    chosen = [places[name] for name in names]
    programs = [contender.results.tasks[place].case_of or name for place, name in zip(chosen, names, strict=True)]
    return replace(whole, totals_T=whole.totals_T[chosen], counts_T=whole.counts_T[chosen]).of_programs(programs)
