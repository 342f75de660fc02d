"""`Judge`: the one reward function that `GRPOTrainer` sees: completions in, verdicts to the ledger, rewards out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from statistics import fmean
from typing import Any

from transformers import TrainerState

from kernelrl import __version__
from kernelrl.candidate import Completion
from kernelrl.executor.api import Executor, Request
from kernelrl.prompts import Message, to_text
from kernelrl.records import Ledger, Record
from kernelrl.rewards import Reward, Score
from kernelrl.task import Task
from kernelrl.verdict import Verdict


class Judge:
    """Judges a whole batch, all groups at once, and writes one record per completion.

    One composite reward, because TRL counts a partial None as 0: with several, an executor outage would punish. Reward
    None (infrastructure) leaves the completion out of the loss; a bad candidate is a score, never an exception.
    """

    __name__ = "kernelrl"

    def __init__(self, executor: Executor, reward: Reward, ledger: Ledger, dialect: str, policy: str, rank: int = 0):
        self.executor = executor
        self.reward = reward
        self.ledger = ledger
        self.dialect = dialect
        self.policy = policy
        self.rank = rank

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
            trainer_state: its `global_step` is the policy step, of `max_steps`.
            log_metric: adds a figure to the trainer's log.
        """
        parsed = [Completion.parse(messages[-1]["content"]) for messages in completions]
        tasks = [_read_task(text) for text in task]
        verdicts = self.executor.evaluate(
            [
                Request(task=task_, candidate=completion.candidate(self.dialect), dialect=self.dialect)
                for task_, completion in zip(tasks, parsed, strict=True)
            ]
        )
        step = trainer_state.global_step
        progress = step / max(trainer_state.max_steps, 1)
        scores = self.reward.of_groups(list(zip(parsed, verdicts, strict=True)), task, progress)
        first = self.rank * len(prompts)
        self.ledger.append(
            Record(
                id=f"grpo/{step}/{first + index}",
                stage="grpo",
                step=step,
                policy=self.policy,
                task_id=tasks[index].id,
                prompt=to_text(prompts[index]),
                completion=parsed[index].text,
                verdict=verdicts[index],
                rewards=scores[index].parts,
                reward=scores[index].total,
                machine=verdicts[index].machine,
                version=__version__,
            )
            for index in range(len(prompts))
        )
        for name, value in _metrics(verdicts, scores).items():
            log_metric(name, value)
        return [score.total for score in scores]


@lru_cache(maxsize=4096)
def _read_task(text: str) -> Task:
    return Task.model_validate_json(text)


def _metrics(verdicts: Sequence[Verdict], scores: Sequence[Score]) -> dict[str, float]:
    """Figures of one batch, for the trainer's log.

    Share of completions that passed each stage and that broke each rule (`broke/RULE`), of the correct ones mean lower
    bound of the speedup and share of time in their own kernels, and mean reward parts.
    """
    known = [verdict for verdict in verdicts if verdict.status != "infrastructure"]
    metrics = {"infrastructure": 1 - len(known) / len(verdicts)}
    if known:
        metrics |= {
            "parsed": fmean(verdict.reached("parsed") for verdict in known),
            "legal": fmean(verdict.legal for verdict in known),
            "compiled": fmean(verdict.legal and verdict.reached("compiled") for verdict in known),
            "correct": fmean(verdict.correct for verdict in known),
        }
        for rule in sorted({violation.rule for verdict in known for violation in verdict.violations}):
            broke = [any(violation.rule == rule for violation in verdict.violations) for verdict in known]
            metrics[f"broke/{rule}"] = fmean(broke)
    covered = [verdict.coverage for verdict in known if verdict.correct and verdict.coverage is not None]
    if covered:
        metrics["coverage"] = fmean(covered)
    timed = [verdict.speedup.low for verdict in known if verdict.correct and verdict.speedup]
    if timed:
        metrics["speedup_low"] = fmean(timed)
    for name in sorted({name for score in scores for name in score.parts}):
        metrics[f"reward/{name}"] = fmean(score.parts[name] for score in scores if name in score.parts)
    return metrics
