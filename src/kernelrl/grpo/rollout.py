"""Training through a strategy: TRL's `rollout_func` that lets trajectories of several answers fill a group's rows.

`num_generations = m T`: a group is m trajectories, each with T rows, one per answer of the trained role
(`grpo.turns`). A trajectory that ended early fills its rows with a single token outside of the loss, and with reward
None, which TRL leaves out of the baseline. Each row has a prompt of its own: what the strategy asked at that turn.

On several ranks the main one runs the strategies of all of them, and shares out the questions (`shared_policy.py`).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PositiveInt
from trl import GRPOTrainer

from kernelrl.errors import UserError
from kernelrl.executor import Executor
from kernelrl.grpo.returns import Baseline
from kernelrl.grpo.shared_policy import SharedPolicy
from kernelrl.policies.prompts import Message, Reasoning, to_text
from kernelrl.policies.protocol import Policy
from kernelrl.rewards import Reward
from kernelrl.stage_folder import is_main_rank
from kernelrl.strategies import runner
from kernelrl.strategies.archive import Archive
from kernelrl.strategies.budget import Budget
from kernelrl.strategies.protocol import CODER, Attempt, Draft, Problem, Strategy
from kernelrl.task import Task
from kernelrl.training import ranks

Item = TypeVar("Item")


class Turns(BaseModel):
    """The node `grpo.turns` of the config: how answers become rows of a group."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rows: PositiveInt
    """T: rows of a trajectory; of a coder's, the most attempts that it makes."""
    role: str
    """Whose answers are trained on."""
    gamma: float = Field(ge=0, le=1)
    """Discount of the scores of the turns that go on from a turn, in its return (`returns.py`)."""
    baseline: Baseline
    """What a return is compared with (`returns.py`)."""
    archive_capacity: PositiveInt
    """Kernels that are kept of each task, for strategies that show them."""
    archive: Path | None
    """An archive of another run: what it knows of the training tasks is there from the first step. None: nothing is."""


@dataclass(frozen=True)
class Row:
    """One answer of the trained role."""

    draft: Draft
    attempt: Attempt | None
    """Whose reward it earns; None: it earns nothing, which is 0."""
    steps_saved: int = 0
    """See `Strategy.steps_saved`."""

    @property
    def turn(self) -> int:
        """How many attempts the answer builds on: that of its record, where it is a kernel."""
        parent = self.draft.question.parent
        return 0 if parent is None else parent.turn + 1


def parents_of(rows: Sequence[Row]) -> list[int | None]:
    """Of the rows of one trajectory, the number of the row that each goes on from; None: it starts afresh.

    That is the nearest of the attempts that it builds on that was the answer of a row, or carried one out.
    """
    numbers = {row.draft.id: number for number, row in enumerate(rows)}
    found: list[int | None] = []
    for row in rows:
        attempt, number = row.draft.question.parent, None
        while attempt is not None and number is None:
            number = numbers.get(attempt.id, numbers.get(attempt.advice_id or ""))
            attempt = attempt.parent
        found.append(number)
    return found


class Judging(Protocol):
    """What a rollout uses of the reward function."""

    executor: Executor
    reward: Reward
    dialect: str


class Rollout:
    """Called by the trainer of every rank for each batch; the reward function reads what came of the last one.

    Args:
        tasks: by the text of their prompts, which is all that the trainer hands over.
        judging: the reward function, on the main rank.
        policies: of the roles that the trained policy does not play, on the main rank.
    """

    def __init__(
        self,
        strategy: Strategy,
        turns: Turns,
        tasks: Mapping[str, Task],
        judging: Judging | None,
        seed: int,
        archive: Archive,
        reasoning: Reasoning,
        policies: Mapping[str, Policy],
    ):
        self.strategy = strategy
        self.turns = turns
        self.rows: list[Row | None] = []
        """Of the last batch, of all ranks; None: the trajectory had ended."""
        self.tasks: list[Task] = []
        """Of the rows of the last batch."""
        self.judged: list[tuple[int, Attempt]] = []
        """All attempts of the last batch, with numbers for their records."""
        self.dropped = 0
        """Earlier turns that the last batch left out of conversations that would have been too long."""
        self._by_prompt = tasks
        self._judging = judging
        self._seed = seed
        self._archive = archive
        self._reasoning = reasoning
        self._policies = policies
        self._step = -1
        self._num_batches = 0
        """Batches of that step so far."""

    def __call__(self, prompts: list[Any], trainer: GRPOTrainer) -> dict[str, Any]:
        """Rows for the trainer: ids of prompts and completions, and which tokens count (`env_mask`)."""
        policy = SharedPolicy(trainer, self._reasoning)
        parts = ranks.gathered([prompts])
        if is_main_rank():
            self._work(list(chain(*parts)), trainer, policy)
            policy.dismiss()
        else:
            policy.serve()
        columns = ranks.from_main(lambda: self._columns(list(chain(*parts)), policy))
        first = sum(map(len, parts[: ranks.rank()]))
        mine = slice(first, first + len(prompts))
        return {name: None if column is None else column[mine] for name, column in columns.items()}

    def _work(self, prompts: list[Any], trainer: GRPOTrainer, policy: SharedPolicy) -> None:
        """Run the strategies on all prompts."""
        assert self._judging is not None
        size, step = self.turns.rows, trainer.state.global_step
        self._step, self._num_batches = step, self._num_batches + 1 if step == self._step else 0
        problems = [self._problem(prompt, number, step, policy) for number, prompt in enumerate(prompts[::size])]
        playing = {CODER: policy, **self._policies, self.turns.role: policy}
        setting = runner.Setting(
            strategy=self.strategy,
            policies=playing,
            names=dict.fromkeys(playing, ""),
            executor=self._judging.executor,
            reward=self._judging.reward,
            budget=Budget(candidates=size if self.turns.role == CODER else None),
            seed=self._seed,
            concurrency=len(problems),
        )
        outcomes = {outcome.problem.id: outcome for outcome in runner.run(setting, problems, _Nothing(), _Nothing())}
        self.rows, self.judged = [], []
        self.tasks = [problem.task for problem in problems for _ in range(size)]
        for number, problem in enumerate(problems):
            outcome = outcomes[problem.id]
            made = self._rows_of(outcome)
            self.rows += [*made, *[None] * (size - len(made))]
            first = number * size if self.turns.role == CODER else len(self.judged)
            self.judged += list(enumerate(outcome.attempts, first))
            self._archive.add(problem.task, [each.exemplar for each in outcome.attempts if each.exemplar is not None])
        self.dropped = sum(problem.dropped for problem in problems)

    def _problem(self, prompt: list[Message], number: int, step: int, policy: SharedPolicy) -> Problem:
        name = f"{step}/{self._num_batches}/{number}"
        task = self._by_prompt[to_text(prompt)]
        assert self._judging is not None
        rng = random.Random(f"{self._seed}/{name}")
        return Problem(f"grpo/{name}", task, self._judging.dialect, prompt, rng, self._archive.of(task), policy.fits)

    def _rows_of(self, outcome: runner.Outcome) -> list[Row]:
        """The first T answers of the trained role; of a coder those that were judged.

        A refusal is no answer. Nor is an answer for which another role's policy refused the question: it is not known
        what it was worth.
        """
        attempts = outcome.attempts
        paid = [
            Row(draft, self.strategy.paid_by(draft, attempts), self.strategy.steps_saved(draft, attempts))
            for draft in outcome.drafts
            if draft.question.role == self.turns.role and draft.answer.failure is None
        ]
        rows = [
            row
            for row in paid
            if (self.turns.role != CODER if row.attempt is None else row.attempt.draft.answer.refused is None)
        ]
        return rows[: self.turns.rows]

    def _columns(self, prompts: list[list[Message]], policy: SharedPolicy) -> dict[str, list[Any] | None]:
        """What TRL wants of all rows."""
        asked = [
            prompt if row is None else row.draft.question.messages
            for prompt, row in zip(prompts, self.rows, strict=True)
        ]
        completions = [[policy.end] if row is None else list(row.draft.answer.token_ids or ()) for row in self.rows]
        known = [None if row is None else row.draft.answer.log_probabilities for row in self.rows]
        given = any(each is not None for each in known)
        return {
            "prompt_ids": policy.tokenize(asked),
            "completion_ids": completions,
            "logprobs": [list(each) if each is not None else [0.0] for each in known] if given else None,
            "env_mask": [[int(row is not None)] * len(ids) for row, ids in zip(self.rows, completions, strict=True)],
        }


class _Nothing(Generic[Item]):
    """A log that keeps nothing: a step that was killed is repeated as a whole, from the checkpoint."""

    def __iter__(self) -> Iterator[Item]:
        return iter(())

    def append(self, items: Iterable[Item]) -> None:
        pass


def check_turns(
    strategy: Strategy, turns: Turns, trainer: Mapping[str, Any], hierarchical: bool, others: Sequence[str] = ()
) -> None:
    """Check that a training through this strategy is possible.

    Args:
        others: the roles that have policies of their own.

    Raises:
        UserError: rows that do not make whole trajectories, a role that nobody asks, or one that nobody plays.
    """
    name = f"grpo strategy={strategy.name}"
    if trainer["num_generations"] % turns.rows:
        raise UserError(
            f"grpo.trainer.num_generations={trainer['num_generations']} is no multiple of "
            f"grpo.turns.rows={turns.rows}: a group is whole trajectories"
        )
    if turns.archive is not None and not turns.archive.is_dir():
        raise UserError(
            f"grpo.turns.archive={turns.archive}: there is no such folder; give one that a search, or a training "
            "through a strategy, has made, such as outputs/NAME/search/archive"
        )
    if turns.role not in strategy.roles:
        raise UserError(f"grpo.turns.role={turns.role}: {name} asks {', '.join(strategy.roles)}; train one of these")
    if turns.role not in strategy.trainable:
        raise UserError(
            f"grpo.turns.role={turns.role}: in {name} no kernel comes of what this role answers, so it would earn "
            f"nothing; train {' or '.join(strategy.trainable)}"
        )
    if unknown := set(others) - set(strategy.roles):
        raise UserError(f"policies.{min(unknown)}: {name} asks no such role; it has {', '.join(strategy.roles)}")
    if turns.role in others:
        raise UserError(f"policies.{turns.role}: the trained policy plays this role; leave it out, or train another")
    if missing := set(strategy.needs) - {*others, turns.role}:
        raise UserError(f"{name} needs a policy for the role {min(missing)!r}; add +policy@policies.{min(missing)}=…")
    if hierarchical:
        raise UserError(f"{name}: a reward with a plan of its own has no turns; take another")
