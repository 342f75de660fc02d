"""The one reward function that `GRPOTrainer` sees: completions in, verdicts to the ledger, rewards out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

from transformers import TrainerState

from kernelrl import __version__
from kernelrl.candidate import Completion
from kernelrl.executor.api import Executor, Request
from kernelrl.grpo.figures import BrokenRules, batch_figures, group_figures
from kernelrl.grpo.retest import Retest
from kernelrl.policies.prompts import PLAIN, Message, Reasoning, to_text
from kernelrl.policies.verifier import Verifier
from kernelrl.records import Ledger, Record
from kernelrl.rewards import Reward
from kernelrl.rewards.similarity import bleu_of
from kernelrl.task import Task
from kernelrl.training import ranks


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
        retest: Retest,
        references: Mapping[str, Sequence[str]],
        verifier: Verifier | None = None,
        reasoning: Reasoning = PLAIN,
    ):
        self.executor = executor
        self.reward = reward
        self.ledger = ledger
        self.dialect = dialect
        self.policy = policy
        self.retest = retest
        self.references = references
        self.verifier = verifier
        self.reasoning = reasoning
        self.plans: list[float | None] = []
        """What the plans of the last batch earned, where the reward pays them by themselves."""
        self._broken = BrokenRules()
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
        **columns: Any,
    ) -> list[float | None]:
        """Rewards of one generation batch.

        Args:
            prompts, completions: conversations, one per completion.
            task: JSON of each completion's task (a column of the data set).
            trainer_state: its `global_step` is the policy step, of `max_steps`; it logs every `logging_steps`.
            log_metric: adds a figure to the trainer's log.
        """
        parsed = [Completion.parse(self._restore(messages[-1])) for messages in completions]
        tasks = [_read_task(text) for text in task]
        requests = [
            Request(task=task_, candidate=completion.candidate(self.dialect), dialect=self.dialect)
            for task_, completion in zip(tasks, parsed, strict=True)
        ]
        started = time.monotonic()
        retested = self.retest(requests, self.executor.evaluate(requests))
        seconds = time.monotonic() - started
        verdicts = retested.verdicts
        step = trainer_state.global_step
        if step != self._step:
            self._step, self._num_records = step, 0
        progress = step / max(trainer_state.max_steps, 1)
        samples, ids = list(zip(parsed, verdicts, strict=True)), [each.id for each in tasks]
        opinions = [None] * len(parsed) if self.verifier is None else self.verifier.opinions(tasks, parsed, verdicts)
        scores = self.reward.of_groups(samples, ids, progress, self.references, opinions)
        self.ledger.append(
            Record(
                id=f"grpo/{step}/{self._num_records + index}",
                stage="grpo",
                step=step,
                policy=self.policy,
                task_id=tasks[index].id,
                prompt=to_text(prompts[index]),
                completion=parsed[index].text,
                verdict=verdicts[index],
                rewards=scores[index].parts,
                reward=scores[index].total,
                opinion=opinions[index],
                machine=verdicts[index].machine,
                version=__version__,
            )
            for index in range(len(prompts))
        )
        self._num_records += len(prompts)
        figures = batch_figures(verdicts, scores) | group_figures(ids, scores) | self._similarity(parsed, ids)
        figures |= {
            "judge_seconds": seconds,
            "retested": retested.num / len(verdicts),
            "retest_disagreed": retested.num_disagreed / len(verdicts),
        }
        broken = self._broken(verdicts, interval=step // max(trainer_state.logging_steps, 1))
        for name, value in (*figures.items(), *broken):
            log_metric(name, value)
        self.plans = [None if score.total is None else score.plan for score in scores]
        weight = self.reward.plan.weight if self.reward.plan else 0.0
        return [None if score.total is None else score.total - weight * score.plan for score in scores]

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

    def __call__(
        self,
        prompts: list[list[Message]],
        completions: list[list[Message]],
        task: list[str],
        trainer_state: TrainerState,
        log_metric: Callable[[str, float], None],
        **columns: Any,
    ) -> list[float | None]:
        """Rewards of this rank's part of a generation batch; arguments as those of `RewardFunction`."""
        parts = ranks.gathered([(prompts, completions, task)])

        def reward_all() -> tuple[list[float | None], list[float | None]]:
            assert self.reward_function is not None
            all_prompts, all_completions, all_tasks = (list(chain(*column)) for column in zip(*parts, strict=True))
            rewards = self.reward_function(all_prompts, all_completions, all_tasks, trainer_state, log_metric)
            return rewards, self.reward_function.plans

        rewards, plans = ranks.from_main(reward_all)
        first = sum(len(part[0]) for part in parts[: ranks.rank()])
        mine = slice(first, first + len(prompts))
        self.plans = plans[mine]
        return rewards[mine]


@lru_cache(maxsize=4096)
def _read_task(text: str) -> Task:
    return Task.model_validate_json(text)
