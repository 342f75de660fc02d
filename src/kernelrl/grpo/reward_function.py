"""The one reward function that `GRPOTrainer` sees: completions in, verdicts to the ledger, rewards out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain
from statistics import fmean
from typing import Any

from transformers import TrainerState

from kernelrl.candidate import Completion
from kernelrl.executor.api import Executor, Request
from kernelrl.executor.judging.retest import contradicts
from kernelrl.grpo.adjusting import Adjust, adjusted, adjustment_figures
from kernelrl.grpo.ahead import JudgedAhead
from kernelrl.grpo.curriculum import Curriculum
from kernelrl.grpo.figures import batch_figures, broken_rules, duplicates, group_figures
from kernelrl.policies.prompts import PLAIN, Message, Reasoning, to_text
from kernelrl.policies.verifier import Verifier
from kernelrl.records import Ledger, Record
from kernelrl.rewards import Reward
from kernelrl.rewards.similarity import bleu_of
from kernelrl.task import Task
from kernelrl.training import ranks
from kernelrl.verdict import Verdict


class RewardFunction:
    """Judges a whole batch, all groups at once, and writes one record per completion.

    One composite reward, because TRL counts a partial None as 0: with several, an executor outage would punish. Reward
    None (infrastructure) leaves the completion out of the loss; a bad candidate is a score, never an exception.
    """

    __name__ = "kernelrl"

    def __init__(
        self,
        executor: Executor,
        reward: Reward,
        ledger: Ledger,
        dialect: str,
        policy: str,
        references: Mapping[str, Sequence[str]],
        verifier: Verifier | None = None,
        reasoning: Reasoning = PLAIN,
        adjust: Adjust | None = None,
        max_tokens: int = 0,
        curriculum: Curriculum | None = None,
    ):
        self.executor = executor
        self._ahead = JudgedAhead(executor)
        self.reward = reward
        self.ledger = ledger
        self.dialect = dialect
        self.policy = policy
        self.references = references
        self.verifier = verifier
        self.reasoning = reasoning
        self.adjust = adjust or Adjust()
        self.max_tokens = max_tokens
        """At which a completion is cut off."""
        self.curriculum = curriculum
        """Hears which tasks were solved."""
        self.solved: list[bool] = []
        """Whether the kernels of the last batch were right."""
        self.plans: list[float | None] = []
        """What the plans of the last batch earned, where the reward pays them by themselves."""
        self.turns: list[int] = []
        """Which turn of its trajectory each completion of the last batch is, from 0."""
        self.validated: list[tuple[str, float]] | None = None
        """Of a validation that is under way, task id and reward of each completion that has one; None: training."""
        self._validation = Ledger(ledger.folder.parent / "validation" / ledger.folder.name)
        self._step = -1
        self._num_records = 0
        """Records of that step so far: one step may generate more than once."""

    def __call__(
        self,
        prompts: list[list[Message]],
        completions: list[list[Message]],
        task: list[str],
        trainer_state: TrainerState,
        log_metric: Callable[[str, float], None],
        completion_ids: list[list[int]],
        **columns: Any,
    ) -> list[float | None]:
        """Rewards of one generation batch.

        Args:
            prompts, completions: conversations, one per completion.
            completion_ids: tokens of each completion.
            task: JSON of each completion's task (a column of the data set).
            trainer_state: its `global_step` is the policy step, of `max_steps`.
            log_metric: adds a figure to the trainer's log.
        """
        parsed = [Completion.parse(self._restore(messages[-1])) for messages in completions]
        tasks = [_read_task(text) for text in task]
        requests = [
            Request(task=task_, candidate=completion.candidate(self.dialect), dialect=self.dialect)
            for task_, completion in zip(tasks, parsed, strict=True)
        ]
        started = time.monotonic()
        verdicts = self._ahead.evaluate(requests)
        seconds = time.monotonic() - started
        step = trainer_state.global_step
        if step != self._step:
            self._step, self._num_records = step, 0
        progress = step / max(trainer_state.max_steps, 1)
        samples, ids = list(zip(parsed, verdicts, strict=True)), [each.id for each in tasks]
        opinions = [None] * len(parsed) if self.verifier is None else self.verifier.opinions(tasks, parsed, verdicts)
        scores = self.reward.of_groups(samples, ids, progress, self.references, opinions)
        stage, ledger, first, adjust = "grpo", self.ledger, self._num_records, self.adjust
        if self.validated is not None:
            stage, ledger, first, adjust = "validation", self._validation, len(self.validated), Adjust()
            self.validated += [
                (id, score.total) for id, score in zip(ids, scores, strict=True) if score.total is not None
            ]
        names = [f"{stage}/{step}/{first + index}" for index in range(len(prompts))]
        changed = [
            adjusted(score.total, verdict, len(tokens), self.max_tokens, adjust, name)
            for score, verdict, tokens, name in zip(scores, verdicts, completion_ids, names, strict=True)
        ]
        ledger.append(
            Record.of(
                id=names[index],
                step=step,
                policy=self.policy,
                prompt=to_text(prompts[index]),
                completion=parsed[index].text,
                verdict=verdicts[index],
                rewards=scores[index].parts | changed[index].parts,
                reward=scores[index].total,
                opinion=opinions[index],
            )
            for index in range(len(prompts))
        )
        if self.validated is None:
            self._num_records += len(prompts)
        figures = batch_figures(verdicts, scores) | group_figures(ids, scores) | self._similarity(parsed, ids)
        figures |= {
            "judge_seconds": seconds,
            "retested": fmean(verdict.retest is not None for verdict in verdicts),
            "retest_disagreed": fmean(map(contradicts, verdicts)),
        }
        figures |= adjustment_figures(changed)
        self.solved = [verdict.correct for verdict in verdicts]
        if self.validated is None:
            figures |= duplicates(ids, parsed) | self._observe(step, ids, verdicts) | broken_rules(verdicts)
        for name, value in figures.items():
            log_metric(name, value)
        self.plans = [
            None if change.reward is None else score.plan for change, score in zip(changed, scores, strict=True)
        ]
        self.turns = [0] * len(prompts)
        weight = self.reward.plan.weight if self.reward.plan else 0.0
        return [
            None if change.reward is None else change.reward - weight * score.plan
            for change, score in zip(changed, scores, strict=True)
        ]

    def _observe(self, step: int, ids: Sequence[str], verdicts: Sequence[Verdict]) -> dict[str, float]:
        """Tell the curriculum, where there is one; its figures."""
        if self.curriculum is None:
            return {}
        known = [(id, verdict) for id, verdict in zip(ids, verdicts, strict=True) if verdict.status != "infrastructure"]
        self.curriculum.observe(step, [id for id, _ in known], [verdict.correct for _, verdict in known])
        return self.curriculum.figures()

    def begin(self, task: str, text: str) -> None:
        """Begin to judge a completion that will be among those of the next call."""
        candidate = Completion.parse(self.reasoning.restore(text)).candidate(self.dialect)
        self._ahead.begin(Request(task=_read_task(task), candidate=candidate, dialect=self.dialect))

    def _restore(self, message: Message) -> str:
        # TRL takes the reasoning out of the text where the tokenizer tells how
        reasoning = dict(message).get("reasoning_content", "")
        return self.reasoning.restore(message["content"], str(reasoning))

    def _similarity(self, completions: Sequence[Completion], ids: Sequence[str]) -> dict[str, float]:
        """Mean BLEU of the kernels with the right ones that are known, where some are."""
        known = [
            (completion.source, self.references[id])
            for completion, id in zip(completions, ids, strict=True)
            if completion.source is not None and id in self.references
        ]
        return {"similarity": float(bleu_of(*zip(*known, strict=True)).mean())} if known else {}


class SharedRewardFunction:
    """The reward function of every rank's trainer: the main rank judges what all of them wrote, as one batch.

    So rewards see whole groups, one executor serves all, and one process writes the ledger.

    Args:
        reward_function: on the main rank; None on the others.
        reasoning: how the policy marks it.
    """

    __name__ = "kernelrl"

    def __init__(self, reward_function: RewardFunction | None, reasoning: Reasoning = PLAIN):
        self.reward_function = reward_function
        self.reasoning = reasoning
        self.plans: list[float | None] = []
        """What `RewardFunction.plans` holds, of this rank's completions."""
        self.solved: list[bool] = []
        """The same of `RewardFunction.solved`."""
        self.turns: list[int] = []
        """What `RewardFunction.turns` holds, of the completions of all ranks."""
        self.seconds = 0.0
        """That the last batch took, from the first rank that was there."""

    @contextmanager
    def validation(self) -> Iterator[list[tuple[str, float]]]:
        """Completions inside are of held-out tasks: a ledger of their own gets them, and nothing is learnt from them.

        Yields:
            (task id, reward) of each of them that has a reward, on every rank, when it is over.
        """
        rewards: list[tuple[str, float]] = []
        if self.reward_function is not None:
            self.reward_function.validated = []
        try:
            yield rewards
        finally:
            validated = None
            if self.reward_function is not None:
                validated, self.reward_function.validated = self.reward_function.validated, None
            rewards += ranks.from_main(lambda: validated or [])

    def __call__(
        self,
        prompts: list[list[Message]],
        completions: list[list[Message]],
        task: list[str],
        trainer_state: TrainerState,
        log_metric: Callable[[str, float], None],
        completion_ids: list[list[int]],
        **columns: Any,
    ) -> list[float | None]:
        """Rewards of this rank's part of a generation batch; arguments as those of `RewardFunction`."""
        started = time.monotonic()
        parts = ranks.gathered([(prompts, completions, task, completion_ids)])

        def reward_all() -> tuple[list[float | None], list[float | None], list[bool], list[int]]:
            function = self.reward_function
            assert function is not None
            all_prompts, all_completions, all_tasks, all_ids = (
                list(chain(*column)) for column in zip(*parts, strict=True)
            )
            rewards = function(
                prompts=all_prompts,
                completions=all_completions,
                task=all_tasks,
                trainer_state=trainer_state,
                log_metric=log_metric,
                completion_ids=all_ids,
            )
            return rewards, function.plans, function.solved, function.turns

        rewards, plans, solved, self.turns = ranks.from_main(reward_all)
        self.seconds = time.monotonic() - started
        first = sum(len(part[0]) for part in parts[: ranks.rank()])
        mine = slice(first, first + len(prompts))
        self.plans, self.solved = plans[mine], solved[mine]
        return rewards[mine]


@lru_cache(maxsize=4096)
def _read_task(text: str) -> Task:
    return Task.model_validate_json(text)
