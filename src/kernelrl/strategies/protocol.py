"""What a strategy is: it gets one problem, and yields requests until it has nothing more to ask.

A strategy says who asks whom what, and in which order; nothing else. It yields `Ask` (questions for a policy) and
`Judge` (completions for the executor), and is sent what came of them. Whoever runs it (`runner.py`) batches the
requests of many problems, keeps budgets, clocks and files, and resumes a run that was killed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict

from kernelrl.candidate import Completion
from kernelrl.policies.prompts import Message, to_text
from kernelrl.policies.protocol import Answer
from kernelrl.strategies.archive import Exemplar, TaskArchive
from kernelrl.strategies.scores import score
from kernelrl.task import Task
from kernelrl.verdict import Verdict

CODER = "coder"
"""The role that writes kernels. A role without a policy of its own is played by this one's."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class Question:
    """A conversation that ends with a message of the user's."""

    messages: list[Message]
    parent: Attempt | None = None
    """The attempt that the answer is to go on from; None: it starts afresh."""
    role: str = CODER
    """Whose answer is wanted."""
    advice: Draft | None = None
    """The answer in another role that it is to carry out."""


@dataclass(frozen=True)
class Draft:
    """What a policy answered."""

    id: str
    """`PROBLEM/N`: the N-th answer of the problem, from 0."""
    question: Question
    answer: Answer

    @property
    def completion(self) -> Completion:
        """The answer, taken apart."""
        return Completion.parse(self.answer.text)


@dataclass(frozen=True)
class Attempt:
    """A draft that was judged."""

    draft: Draft
    completion: Completion
    verdict: Verdict

    @property
    def id(self) -> str:
        """That of its draft, and of its record."""
        return self.draft.id

    @property
    def parent(self) -> Attempt | None:
        """The attempt that it goes on from."""
        return self.draft.question.parent

    @property
    def advice_id(self) -> str | None:
        """Of the answer in another role that it carries out."""
        advice = self.draft.question.advice
        return None if advice is None else advice.id

    @property
    def turn(self) -> int:
        """How many attempts it builds on, counted along its parents."""
        return 0 if self.parent is None else self.parent.turn + 1

    @property
    def score(self) -> float:
        """What strategies rank it by (`scores.py`)."""
        return score(self.verdict)

    @property
    def fields(self) -> dict[str, Any]:
        """Those of its record that it decides, but for ids."""
        question, answer = self.draft.question, self.draft.answer
        told = {"prompt": to_text(question.messages), "completion": self.completion.text, "verdict": self.verdict}
        return told | {"turn": self.turn} | answer.usage

    @property
    def exemplar(self) -> Exemplar | None:
        """It as the archive keeps it; None: it holds no kernel."""
        source = self.completion.source
        return None if source is None else Exemplar(id=self.id, source=source, verdict=self.verdict)


@dataclass(frozen=True)
class Ask:
    """A request: ask these questions. Sent back: a draft for each, or for the first of them where a budget ends."""

    questions: Sequence[Question]


@dataclass(frozen=True)
class Judge:
    """A request: judge these drafts. Sent back: an attempt for each, or for the first of them where a budget ends."""

    drafts: Sequence[Draft]


Turns = Generator[Ask | Judge, Any, Result]
"""What a strategy is while it runs."""


def ask(questions: Sequence[Question]) -> Turns[list[Draft]]:
    """`yield from ask(...)`: the answers to the questions."""
    drafts: list[Draft] = yield Ask(questions)
    return drafts


def judge(drafts: Sequence[Draft]) -> Turns[list[Attempt]]:
    """`yield from judge(...)`: what became of the drafts."""
    attempts: list[Attempt] = yield Judge(drafts)
    return attempts


def write(questions: Sequence[Question]) -> Turns[list[Attempt]]:
    """`yield from write(...)`: ask for kernels and have them judged."""
    drafts = yield from ask(questions)
    return (yield from judge(drafts))


@dataclass
class Problem:
    """One task as a strategy sees it."""

    id: str
    """Unique in the run, e.g. `search/TASK`; begins the ids of its drafts."""
    task: Task
    dialect: str
    prompt: list[Message]
    """The conversation that asks for a kernel, with nothing known yet."""
    rng: Random
    """Seeded by the run's seed and the problem: all that a strategy draws comes from it."""
    archive: TaskArchive = field(default_factory=TaskArchive)
    """Kernels that are known for the task, with their verdicts."""
    fits: Callable[[list[Message]], bool] = lambda messages: True
    """Whether a conversation is short enough to be asked; the runner adds what the coder's policy knows of its
    context."""
    dropped: int = 0
    """Number of earlier turns that were left out of a conversation because it would have been too long."""


class Strategy(BaseModel):
    """A way in which kernels come about. Its fields are its settings (`configs/strategy/NAME.yaml`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str

    @property
    def roles(self) -> tuple[str, ...]:
        """Who is asked."""
        return (CODER,)

    @property
    def needs(self) -> tuple[str, ...]:
        """Roles that no other one's policy can play."""
        return ()

    @property
    def trainable(self) -> tuple[str, ...]:
        """Roles whose answers earn something in training."""
        return self.roles

    def paid_by(self, draft: Draft, attempts: Sequence[Attempt]) -> Attempt | None:
        """The attempt whose reward an answer earns in training: its own, or the first that carried it out.

        Args:
            attempts: all of the problem, in the order in which they were judged.

        Returns:
            None: nothing came of it.
        """
        return next((each for each in attempts if draft.id in (each.id, each.advice_id)), None)

    def steps_saved(self, draft: Draft, attempts: Sequence[Attempt]) -> int:
        """How many further kernels need not be written because of this answer, as of one that ends the work.

        In training it earns its reward once more for each of them, as if they had been written and were no better: to
        end in time is to earn no less than to go on without effect.
        """
        return 0

    @abstractmethod
    def turns(self, problem: Problem) -> Turns[None]:
        """Work on one problem. What was found are the attempts that were judged on the way."""
