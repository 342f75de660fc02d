"""Language models as teachers: whatever can be sampled (`configs/policy`), an endpoint or a model in this process.

Each task is asked for `samples` times, with a prompt that shows one example of the task's category. Answers are
kept in a disk cache, so a rerun asks nothing twice; failures are not, so a rerun asks for them again. Not covered:
refinement by feedback, which is search.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any

from omegaconf import DictConfig

from kernelrl.candidate import Completion
from kernelrl.configs import to_dict
from kernelrl.data.teachers import Asked, Proposal, Teacher
from kernelrl.data.teachers.llm.money import Estimate, Purse, estimate
from kernelrl.errors import UserError
from kernelrl.policies.backends import open_policy, read_settings
from kernelrl.policies.backends.base import Backend
from kernelrl.policies.backends.settings import EndpointSettings
from kernelrl.policies.prompts import Message, build_prompt
from kernelrl.policies.protocol import Answer
from kernelrl.task import Task

REPORT_EVERY_S = 30.0
OWN = {"name", "label", "samples", "style", "seed", "max_cost"}
"""Keys of the config that are not the policy's."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """What came of one sample for one task."""

    task: Task
    answers: Sequence[Answer]
    """To the questions that it took, in their order."""
    found: Proposal | str | None
    """A proposal, or why there is none in the answers; None: the last question has no answer."""


class LLMTeacher(Teacher):
    """Args:
    cfg: see `configs/teacher/llm.yaml`.
    """

    dialects = frozenset({"cpp", "triton", "cuda"})
    own = OWN
    rounds = 1
    """Questions that one sample takes, one after the other."""

    def __init__(self, cfg: DictConfig):
        if cfg.samples < 1:
            raise UserError(f"teacher.samples={cfg.samples}: at least 1 is needed")
        self._cfg = cfg
        self.name = f"{cfg.name}: {cfg.model}"
        node = {key: value for key, value in to_dict(cfg).items() if key not in self.own}
        self._settings = read_settings(node, "teacher")
        self._counts: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._purse = Purse(cfg.get("max_cost"), getattr(self._settings, "prices", None))
        self._reported = time.monotonic()
        self._seeds = [cfg.seed * 10_007 + sample for sample in range(cfg.samples)]

    def proposals(self, tasks: Iterable[Task], dialect: str) -> Iterator[tuple[Task, Proposal]]:
        served = self._settings if isinstance(self._settings, EndpointSettings) else None
        batch = served.batch if served else None
        num_threads = 1 if served is None or batch else served.concurrency
        ahead = 1 if batch else 2 * num_threads
        at_once = 1 if batch is None else max(batch.questions // len(self._seeds), 1)
        if isinstance(tasks, Sequence):
            log.info("teacher %s: %s", self.name, self._estimate(tasks, dialect))
        rest = iter(tasks)
        waiting: deque[Future[list[Outcome]]] = deque()
        with ThreadPoolExecutor(num_threads) as threads, closing(open_policy(self._settings, name="teacher")) as policy:
            try:
                while group := list(islice(rest, at_once)):
                    if self._purse.forbids(self._estimate(group, dialect) if batch else None):
                        self._leave_open(group, dialect)
                        continue
                    waiting.append(threads.submit(self._ask, policy, group, dialect))
                    while sum(not future.done() for future in waiting) >= ahead:
                        yield from self._collect(waiting.popleft(), dialect)
                while waiting:
                    yield from self._collect(waiting.popleft(), dialect)
            finally:
                threads.shutdown(wait=False, cancel_futures=True)
                log.info("teacher %s: %s", self.name, self._note())

    def summary(self) -> dict[str, Any]:
        """Tokens and cost are those of this run: what came from the cache cost nothing."""
        named = {name: self._counts[name] for name in ("answers", "cached", "no_kernel")}
        return {"model": self._cfg.model, **named, **self._counts, "failed": dict(self._failures), **self._purse.spent}

    def _questions(self, task: Task, dialect: str) -> list[list[Message]]:
        """The conversations that a task's samples begin with, each sampled once for every seed."""
        return [build_prompt(task, dialect, self._cfg.style)]

    def _ask(self, policy: Backend, group: Sequence[Task], dialect: str) -> list[Outcome]:
        """Runs in a thread: what came of every sample for every task of a group."""
        samples = self._samples(group, dialect)
        answers = sample(policy, [(messages, seed) for _, seed, messages in samples])
        return [
            Outcome(task, (answer,), None if answer.failure is not None else self._read(answer, seed))
            for (task, seed, _), answer in zip(samples, answers, strict=True)
        ]

    def _samples(self, group: Sequence[Task], dialect: str) -> list[tuple[Task, int, list[Message]]]:
        """Task, seed and first question of every sample."""
        questions = [(task, messages) for task in group for messages in self._questions(task, dialect)]
        return [(task, seed, messages) for task, messages in questions for seed in self._seeds]

    def _read(self, answer: Answer, seed: int) -> Proposal | str:
        """The kernel and what was said before it."""
        completion = Completion.parse(answer.text)
        if completion.source is None:
            return "no_kernel"
        before_the_code = completion.answer.partition("```")[0].strip()  # what follows explains, and is no reasoning
        return Proposal(completion.reasoning or before_the_code, completion.source, asked=self._asked(answer, seed))

    def _asked(self, answer: Answer, seed: int) -> Asked:
        request = json.dumps(self._settings.identity | {"seed": seed}, sort_keys=True)
        return Asked(str(self._cfg.model), request, answer.prompt_tokens, answer.completion_tokens, answer.finish)

    def _collect(self, outcomes: Future[list[Outcome]], dialect: str) -> Iterator[tuple[Task, Proposal]]:
        for outcome in outcomes.result():
            for answer in outcome.answers:
                self._count(answer, outcome.task, dialect)
            if time.monotonic() - self._reported > REPORT_EVERY_S:
                self._reported = time.monotonic()
                log.info("teacher %s: %s", self.name, self._note())
            if isinstance(outcome.found, Proposal):
                yield outcome.task, outcome.found
            elif outcome.found is not None:
                self._counts[outcome.found] += 1

    def _count(self, answer: Answer, task: Task, dialect: str) -> None:
        self.questions += 1
        if answer.failure is not None:
            self.unanswered += 1
            self._failures[answer.failure] += 1
            return
        self._counts["answers"] += 1
        if answer.cached:
            self._counts["cached"] += 1
        else:
            self._purse.pay(answer, self._estimate([task], dialect))

    def _estimate(self, tasks: Sequence[Task], dialect: str) -> Estimate:
        """What asking about tasks takes at most."""
        count = len(self._seeds) * self.rounds
        return estimate(tasks, lambda task: self._questions(task, dialect) * count, self._settings)

    def _leave_open(self, tasks: Sequence[Task], dialect: str) -> None:
        """Count the tasks' questions as not answered: the next run asks them, for as much again."""
        number = sum(len(self._questions(task, dialect)) for task in tasks) * len(self._seeds)
        self.questions += number
        self.unanswered += number
        self._failures["teacher.max_cost reached"] += number

    def _note(self) -> str:
        figures = self.summary()
        cost = "cost unknown" if figures["cost"] is None else f"cost {figures['cost']:.4f}"
        failed = ", ".join(f"{count} {kind}" for kind, count in self._failures.items()) or "none"
        return (
            f"{figures['answers']} answers ({figures['cached']} from the cache), "
            f"{figures['no_kernel']} without a kernel, "
            f"failed: {failed}, {figures['prompt_tokens']} + {figures['completion_tokens']} tokens, {cost}"
        )


def sample(policy: Backend, questions: Sequence[tuple[list[Message], int]]) -> list[Answer]:
    """Answers to conversations, each with its seed."""
    return policy.sample([messages for messages, _ in questions], [seed for _, seed in questions])


def make(cfg: DictConfig) -> LLMTeacher:
    return LLMTeacher(cfg)
