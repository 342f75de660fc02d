"""The one reward function that `GRPOTrainer` sees: completions in, verdicts to the ledger, rewards out."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from statistics import fmean
from typing import Any

from transformers import TrainerState

from kernelrl import __version__
from kernelrl.candidate import Completion
from kernelrl.executor.api import Executor, Request
from kernelrl.grpo.retest import Retest
from kernelrl.grpo.verifier import Verifier
from kernelrl.policies.prompts import Message, to_text
from kernelrl.records import Ledger, Record
from kernelrl.rewards import Reward, Score
from kernelrl.rewards.similarity import bleu_of
from kernelrl.task import Task
from kernelrl.training import ranks
from kernelrl.verdict import Verdict

TINY = 1.05
"""A speedup below this is one that noise may feign."""


class Judge:
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
    ):
        self.executor = executor
        self.reward = reward
        self.ledger = ledger
        self.dialect = dialect
        self.policy = policy
        self.retest = retest
        self.references = references
        self.verifier = verifier
        self.plans: list[float | None] = []
        """What the plans of the last batch earned, where the reward pays them by themselves."""

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
        requests = [
            Request(task=task_, candidate=completion.candidate(self.dialect), dialect=self.dialect)
            for task_, completion in zip(tasks, parsed, strict=True)
        ]
        started = time.monotonic()
        retested = self.retest(requests, self.executor.evaluate(requests))
        seconds = time.monotonic() - started
        verdicts = retested.verdicts
        step = trainer_state.global_step
        progress = step / max(trainer_state.max_steps, 1)
        samples, ids = list(zip(parsed, verdicts, strict=True)), [each.id for each in tasks]
        opinions = [None] * len(parsed) if self.verifier is None else self.verifier.opinions(tasks, parsed, verdicts)
        scores = self.reward.of_groups(samples, ids, progress, self.references, opinions)
        self.ledger.append(
            Record(
                id=f"grpo/{step}/{index}",
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
        figures = _metrics(verdicts, scores) | _group_metrics(ids, scores) | self._similarity(parsed, ids)
        figures |= {
            "judge_seconds": seconds,
            "retested": retested.num / len(verdicts),
            "retest_disagreed": retested.num_disagreed / len(verdicts),
        }
        for name, value in figures.items():
            log_metric(name, value)
        self.plans = [None if score.total is None else score.plan for score in scores]
        weight = self.reward.plan.weight if self.reward.plan else 0.0
        return [None if score.total is None else score.total - weight * score.plan for score in scores]

    def _similarity(self, completions: Sequence[Completion], ids: Sequence[str]) -> dict[str, float]:
        """Mean BLEU of the kernels with the right ones that are known, where some are."""
        known = [
            (completion.source, self.references[id])
            for completion, id in zip(completions, ids, strict=True)
            if completion.source is not None and id in self.references
        ]
        return {"similarity": float(bleu_of(*zip(*known, strict=True)).mean())} if known else {}


class SharedJudge:
    """The reward function of every rank's trainer: the main rank judges what all of them wrote, as one batch.

    So rewards see whole groups, one executor serves all, and one process writes the ledger.

    Args:
        judge: on the main rank; None on the others.
    """

    __name__ = "kernelrl"

    def __init__(self, judge: Judge | None):
        self.judge = judge
        self.plans: list[float | None] = []
        """As the judge's, of this rank's completions."""

    def __call__(
        self,
        prompts: list[list[Message]],
        completions: list[list[Message]],
        task: list[str],
        trainer_state: TrainerState,
        log_metric: Callable[[str, float], None],
        **columns: Any,
    ) -> list[float | None]:
        """Rewards of this rank's part of a generation batch; arguments as the judge's."""
        parts = ranks.gathered([(prompts, completions, task)])

        def judge_all() -> tuple[list[float | None], list[float | None]]:
            assert self.judge is not None
            all_prompts, all_completions, all_tasks = (list(chain(*column)) for column in zip(*parts, strict=True))
            return self.judge(all_prompts, all_completions, all_tasks, trainer_state, log_metric), self.judge.plans

        rewards, plans = ranks.from_main(judge_all)
        first = sum(len(part[0]) for part in parts[: ranks.rank()])
        mine = slice(first, first + len(prompts))
        self.plans = plans[mine]
        return rewards[mine]


@lru_cache(maxsize=4096)
def _read_task(text: str) -> Task:
    return Task.model_validate_json(text)


def _group_metrics(ids: Sequence[str], scores: Sequence[Score]) -> dict[str, float]:
    """Share of groups that teach nothing: those of one scored completion, and those whose rewards are all alike."""
    groups: defaultdict[str, list[float]] = defaultdict(list)
    for id, score in zip(ids, scores, strict=True):
        if score.total is not None:
            groups[id].append(score.total)
    if not groups:
        return {}
    return {
        "lone_groups": fmean(len(totals) == 1 for totals in groups.values()),
        "silent_groups": fmean(len(totals) > 1 and len(set(totals)) == 1 for totals in groups.values()),
    }


def _metrics(verdicts: Sequence[Verdict], scores: Sequence[Score]) -> dict[str, float]:
    """Figures of one batch, for the trainer's log.

    Share of completions that passed each stage and that broke each rule (`broke/RULE`); of the correct ones the share
    of time in their own kernels; of the timed ones the mean lower bound of the speedup, and the share that is faster,
    but by less than `TINY` (`tiny_speedups`); mean reward parts.
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
        metrics["tiny_speedups"] = fmean(1 < low < TINY for low in timed)
    for name in sorted({name for score in scores for name in score.parts}):
        metrics[f"reward/{name}"] = fmean(score.parts[name] for score in scores if name in score.parts)
    return metrics
