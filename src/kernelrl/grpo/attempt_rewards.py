"""The reward function where completions come from a strategy, which has had them judged already."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Any

from transformers import TrainerState

from kernelrl.grpo.adjusting import Adjusted, adjusted, adjustment_figures
from kernelrl.grpo.figures import batch_figures, broken_rules, group_figures
from kernelrl.grpo.returns import discounted
from kernelrl.grpo.reward_function import RewardFunction
from kernelrl.grpo.rollout import Rollout, Row, parents_of
from kernelrl.records import Record


class AttemptRewardFunction(RewardFunction):
    """Pays the rows of the last batch of a rollout by their returns, and writes one record per attempt."""

    rollout: Rollout

    def __call__(  # type: ignore[override]
        self, trainer_state: TrainerState, log_metric: Callable[[str, float], None], **columns: Any
    ) -> list[float | None]:
        """Returns of the rows of a batch of trajectories; None: left out, or the trajectory had ended."""
        rollout = self.rollout
        made = [attempt for _, attempt in rollout.judged]
        tasks, step = {task.id: task for task in rollout.tasks}, trainer_state.global_step
        parsed, verdicts = [each.completion for each in made], [each.verdict for each in made]
        ids = [each.verdict.task_id for each in made]
        opinions: list[float | None] = [None] * len(made)
        if self.verifier is not None:
            opinions = self.verifier.opinions([tasks[id] for id in ids], parsed, verdicts)
        progress = step / max(trainer_state.max_steps, 1)
        samples = list(zip(parsed, verdicts, strict=True))
        scores = self.reward.of_groups(samples, ids, progress, self.references, opinions)
        if step != self._step:
            self._step, self._num_records = step, 0
        first = self._num_records
        names = {attempt.id: f"grpo/{step}/{first + number}" for number, attempt in rollout.judged}
        self._num_records += max([len(rollout.rows), *(number + 1 for number, _ in rollout.judged)])
        totals = {attempt.id: score.total for attempt, score in zip(made, scores, strict=True)}
        changed = self._returns(totals, names)
        parts = {
            row.attempt.id: change.parts | ({} if change.reward is None else {"return": change.reward})
            for row, change in zip(rollout.rows, changed, strict=True)
            if row is not None and row.attempt is not None
        }
        self.ledger.append(
            Record.of(
                id=names[attempt.id],
                step=step,
                policy=self.policy,
                rewards=score.parts | parts.get(attempt.id, {}),
                reward=score.total,
                opinion=opinion,
                strategy=rollout.strategy.name,
                parent=names[attempt.parent.id] if attempt.parent else None,
                **attempt.fields,
            )
            for attempt, score, opinion in zip(made, scores, opinions, strict=True)
        )
        rows = rollout.rows
        right = [row is not None and row.attempt is not None and row.attempt.verdict.correct for row in rows]
        figures = batch_figures(verdicts, scores) if made else {}
        figures |= group_figures(ids, scores) | self._similarity(parsed, ids) | self._observe(step, ids, verdicts)
        turns = [None if row is None else row.turn for row in rows]
        filled = [turn for turn in turns if turn is not None]
        figures |= {"attempts": len(filled) / len(rows), "dropped_turns": float(rollout.dropped)}
        figures |= adjustment_figures(changed)
        for turn in sorted(set(filled)):
            figures[f"correct/turn{turn}"] = fmean(ok for ok, each in zip(right, turns, strict=True) if each == turn)
        figures |= broken_rules(verdicts)
        for name, value in figures.items():
            log_metric(name, value)
        self.plans = [None] * len(rows)
        self.solved, self.turns = right, [turn or 0 for turn in turns]
        return [change.reward for change in changed]

    def _score(self, row: Row, totals: Mapping[str, float | None], left: int) -> float | None:
        """What a row earns by itself; `left` is the number of rows that the trajectory has room for after it."""
        total = 0.0 if row.attempt is None else totals[row.attempt.id]
        gamma = self.rollout.turns.gamma
        return None if total is None else total * sum(gamma**later for later in range(1 + min(row.steps_saved, left)))

    def _returns(self, totals: Mapping[str, float | None], names: Mapping[str, str]) -> list[Adjusted]:
        """The discounted return of every row, with its changes.

        An answer of which nothing came earns 0, whatever came after it. An earlier one is paid for that all the same.
        """
        rollout, size = self.rollout, self.rollout.turns.rows
        returns: list[float | None] = []
        for first in range(0, len(rollout.rows), size):
            trajectory = [row for row in rollout.rows[first : first + size] if row is not None]
            scores = [self._score(row, totals, size - number - 1) for number, row in enumerate(trajectory)]
            found = discounted(scores, parents_of(trajectory), rollout.turns.gamma)
            returns += [0.0 if row.attempt is None else it for row, it in zip(trajectory, found, strict=True)]
            returns += [None] * (size - len(trajectory))  # it had ended
        changed = []
        for row, value in zip(rollout.rows, returns, strict=True):
            if row is None or row.attempt is None:
                changed.append(Adjusted(value))
                continue
            num_tokens, name = row.draft.answer.completion_tokens or 0, names[row.attempt.id]
            changed.append(adjusted(value, row.attempt.verdict, num_tokens, self.max_tokens, self.adjust, name))
        return changed
