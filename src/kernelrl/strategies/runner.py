"""The runner: works on many problems at once, so that policies and executor always get large batches.

It goes in rounds. A round asks all questions that wait, of all problems, as one batch per policy, and then judges all
drafts that wait in one call of the executor: kernels are not timed while a policy on the same machine writes.

What was asked and judged is in the journal and the ledger. A run that was killed is replayed: strategies are started
again with the same seeds and are sent what they were sent before, up to the request at which the run ended.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from kernelrl.errors import UserError
from kernelrl.executor.api import Executor, Request, no_answer, not_known
from kernelrl.policies.backends.base import Backend
from kernelrl.policies.prompts import Message, to_text
from kernelrl.policies.protocol import Answer, Policy
from kernelrl.records import Record
from kernelrl.rewards import Reward
from kernelrl.strategies.budget import Budget, Spent
from kernelrl.strategies.journal import Entry
from kernelrl.strategies.protocol import CODER, Ask, Attempt, Draft, Judge, Problem, Question, Strategy, Turns
from kernelrl.verdict import Verdict

REFUSED = "refused"
"""`Verdict.protocol` of a draft that a screen refused: nothing is known about it, and it cost no candidate."""

FRUITLESS = 256
"""Answers in a row of which no candidate came, after which a strategy is not started anew where only candidates and
device seconds are limited: a verifier or a screen that refuses everything would never let that budget be spent."""

KEPT = "what was answered is kept, and the same command asks for the rest"

log = logging.getLogger(__name__)


class Screen(Protocol):
    """Says which drafts are not worth the hardware."""

    def refusals(self, drafts: Sequence[tuple[Problem, Draft]]) -> Sequence[str | None]:
        """Why each is not judged; None: it is. The same for the same draft, so that a run can be resumed."""
        ...


@dataclass(frozen=True)
class Setting:
    """What is the same for all problems of a run."""

    strategy: Strategy
    policies: Mapping[str, Policy]
    """By role; a role that is not here is played by the coder's."""
    names: Mapping[str, str]
    """The names of the policies in the records, by role."""
    executor: Executor
    reward: Reward
    budget: Budget
    seed: int
    repeat: bool = False
    """Start a strategy that has nothing more to ask anew, until the budget is spent."""
    concurrency: int = 64
    """Number of problems that are worked on at a time."""
    screen: Screen | None = None
    """Asked before the executor; None: every draft is judged."""
    resumable: bool = False
    """The same run goes on later from its journal: an answer that failed ends it after the round, and is asked for
    again then. False: it is final."""


@dataclass
class Outcome:
    """What came of one problem."""

    problem: Problem
    drafts: list[Draft] = field(default_factory=list)
    """All answers, in all roles, in the order in which they were asked for."""
    attempts: list[Attempt] = field(default_factory=list)
    """In the order in which they were judged."""
    spent: Spent = field(default_factory=Spent)
    history: list[Spent] = field(default_factory=list)
    """What had been spent when each attempt had been judged."""

    @property
    def best(self) -> Attempt | None:
        """The right kernel with the highest score; None: none is right."""
        right = [attempt for attempt in self.attempts if attempt.verdict.correct]
        return max(right, key=lambda attempt: attempt.score, default=None)


Item = TypeVar("Item")


class Log(Protocol[Item]):
    """Where a run writes what was answered (a `Journal`) or judged (a `Ledger`), and finds what it wrote before."""

    def __iter__(self) -> Iterator[Item]: ...

    def append(self, items: Iterable[Item], /) -> None: ...


def run(setting: Setting, problems: Sequence[Problem], journal: Log[Entry], ledger: Log[Record]) -> Iterator[Outcome]:
    """Work on problems. Yields the outcome of each as it is done.

    Raises:
        UserError: a policy cannot be asked, or has left questions without an answer. Nothing is lost: the same run goes
            on from there.
    """
    answers: dict[str, Answer] = {}
    asked: dict[str, int] = {}
    heard: set[str] = set()
    for entry in journal:
        answers[entry.id], asked[entry.id] = entry.answer, hash((entry.role, entry.prompt))
        if entry.answer.failure is None:
            heard.add(entry.role)
    verdicts = {record.id: record.verdict for record in ledger}
    waiting = list(reversed(problems))
    active: list[_Work] = []
    while waiting or active:
        while waiting and len(active) < setting.concurrency:
            active.append(_Work(setting, waiting.pop(), asked))
        _ask_all(setting, [work for work in active if isinstance(work.request, Ask)], answers, heard, journal)
        _judge_all(setting, [work for work in active if isinstance(work.request, Judge)], verdicts, ledger)
        for work in active:
            if work.request is None:
                yield work.outcome
        active = [work for work in active if work.request is not None]


class _Work:
    """One problem that is being worked on.

    Args:
        asked: what the answers of an earlier run were to, by their ids.
    """

    def __init__(self, setting: Setting, problem: Problem, asked: Mapping[str, int]):
        self.setting = setting
        self._asked = asked
        self.outcome = Outcome(problem)
        self.request: Ask | Judge | None = None
        """What waits to be done; None: nothing more."""
        self._turns: Turns[None] = setting.strategy.turns(problem)
        self._num_answered = 0
        """Answers when the strategy was last started."""
        self._judged_at = 0
        """Answers when a candidate was last judged."""
        if isinstance(coder := setting.policies[CODER], Backend):
            problem.fits = _both(problem.fits, coder)
        self._advance(None)

    def questions(self) -> list[tuple[str, Question]]:
        """The questions that wait, as far as the budget allows, with the ids of their answers.

        Where the smaller budget of an earlier run allowed fewer of them, and it asked something else after those, it is
        as many again: the answers to what it asked next would be taken for those to the rest.
        """
        assert isinstance(self.request, Ask)
        spent, budget = self.outcome.spent, self.setting.budget
        granted = list(self.request.questions[: spent.left_to_ask(budget)])
        kernels = [index for index, question in enumerate(granted) if question.role == CODER]
        if len(kernels) > (most := spent.left_to_judge(budget)):  # what could not be judged is not written
            granted = granted[: kernels[most]]
        found = [(f"{self.outcome.problem.id}/{spent.completions + n}", each) for n, each in enumerate(granted)]
        others = [n for n, (id, each) in enumerate(found) if id in self._asked and self._asked[id] != _hash(each)]
        return found[: others[0]] if others and others[0] > 0 else found

    def drafts(self) -> list[Draft]:
        """The drafts that wait, as far as the budget allows."""
        assert isinstance(self.request, Judge)
        return list(self.request.drafts[: self.outcome.spent.left_to_judge(self.setting.budget)])

    def answered(self, drafts: list[Draft]) -> None:
        """Go on with these answers."""
        self.outcome.drafts += drafts
        for draft in drafts:
            self.outcome.spent.add_answer(draft.answer)
        self._advance(drafts)

    def judged(self, attempts: list[Attempt]) -> None:
        """Go on with these attempts."""
        outcome = self.outcome
        for attempt in attempts:
            if attempt.verdict.protocol != REFUSED:
                outcome.spent.add_verdict(attempt.verdict)
                self._judged_at = outcome.spent.completions
            outcome.attempts.append(attempt)
            outcome.history.append(Spent(**outcome.spent.to_json()))
        outcome.problem.archive.add([attempt.exemplar for attempt in attempts if attempt.exemplar is not None])
        if any(attempt.verdict.fault == "task" for attempt in attempts):
            log.warning("task %s cannot be judged: %s", outcome.problem.task.id, attempts[0].verdict.feedback)
            self._end()
        else:
            self._advance(attempts)

    def _advance(self, result: list[Draft] | list[Attempt] | None) -> None:
        """Let the strategy go on to its next request; where the budget is spent, it ends there."""
        try:
            self.request = self._turns.send(result)
        except StopIteration:
            answered = sum(draft.answer.failure is None for draft in self.outcome.drafts)
            if not self.setting.repeat or answered == self._num_answered or self._is_fruitless():
                self._end()
                return
            self._num_answered = answered
            self._turns = self.setting.strategy.turns(self.outcome.problem)
            self._advance(None)
            return
        wanted = self.questions() if isinstance(self.request, Ask) else self.drafts()
        if not wanted:
            asks_nothing = not (self.request.questions if isinstance(self.request, Ask) else self.request.drafts)
            if asks_nothing:
                self._advance([])
            else:
                self._end()

    def _is_fruitless(self) -> bool:
        """Whether nothing comes of more answers, and no budget would end them."""
        budget, number = self.setting.budget, self.outcome.spent.completions - self._judged_at
        if number < FRUITLESS or any(it is not None for it in (budget.completions, budget.tokens, budget.cost)):
            return False
        log.warning("task %s: no candidate came of the last %d answers; given up", self.outcome.problem.task.id, number)
        return True

    def _end(self) -> None:
        self._turns.close()
        self.request = None


def _both(given: Callable[[list[Message]], bool], policy: Backend) -> Callable[[list[Message]], bool]:
    """Whether a conversation is within the given limit and within the policy's context."""
    return lambda messages: given(messages) and policy.too_long(messages) is None


def _ask_all(
    setting: Setting, works: Sequence[_Work], answers: dict[str, Answer], heard: set[str], journal: Log[Entry]
) -> None:
    """Ask the questions that wait. `heard` are the roles that have answered at least once."""
    wanted = [(work, work.questions()) for work in works]
    new = [(id, question) for _, questions in wanted for id, question in questions if id not in answers]
    failures: Counter[str] = Counter()
    for role in dict.fromkeys(question.role for _, question in new):
        asked = [(id, question) for id, question in new if question.role == role]
        failures.update(_ask_role(setting, role, asked, answers, heard, journal))
    if failures and setting.resumable:
        kinds = ", ".join(f"{count} x {kind}" for kind, count in failures.items())
        raise UserError(f"questions without an answer ({kinds}); {KEPT}")
    for work, questions in wanted:
        work.answered([Draft(id, question, answers[id]) for id, question in questions])


def _ask_role(
    setting: Setting,
    role: str,
    asked: Sequence[tuple[str, Question]],
    answers: dict[str, Answer],
    heard: set[str],
    journal: Log[Entry],
) -> list[str]:
    """Ask the questions of one role. Each answer is in the journal as soon as it is there.

    A refusal goes there too, because the same question would be refused again; but not from a policy that has never
    answered, because then it is the settings that are wrong. Other failures never do.

    Returns:
        The kinds of the failures that are not final.
    """
    policy = setting.policies.get(role, setting.policies[CODER])
    failed: list[tuple[int, Answer]] = []

    def write(index: int, answer: Answer) -> None:
        id, question = asked[index]
        journal.append([Entry(id=id, role=role, prompt=to_text(question.messages), answer=answer)])

    try:
        for index, answer in _stream(setting, policy, asked):
            answers[asked[index][0]] = answer
            if answer.failure is None:
                heard.add(role)
                write(index, answer)
            else:
                failed.append((index, answer))
    except UserError as error:
        if not setting.resumable:
            raise
        raise UserError(f"{error} ({KEPT})") from None
    transient = [answer.failure for _, answer in failed if answer.failure is not None and answer.refused is None]
    if failed and len(failed) == len(asked) and (transient or role not in heard):
        kinds = ", ".join(sorted({answer.refused or str(answer.failure) for _, answer in failed}))
        raise UserError(f"the policy answers nothing (role {role}: {kinds}); the same command goes on where it stopped")
    for index, answer in failed:
        if answer.refused is not None:
            write(index, answer)
    return transient


def _stream(setting: Setting, policy: Policy, asked: Sequence[tuple[str, Question]]) -> Iterator[tuple[int, Answer]]:
    """The answers as they come, each with the index of its question; the policy in training gives all at once."""
    conversations = [question.messages for _, question in asked]
    seeds = [_seed(setting.seed, id) for id, _ in asked]
    if isinstance(policy, Backend):
        yield from policy.ask(conversations, seeds)
    else:
        yield from enumerate(policy.sample(conversations, seeds))


def _judge_all(setting: Setting, works: Sequence[_Work], verdicts: dict[str, Verdict], ledger: Log[Record]) -> None:
    wanted = [(work, work.drafts()) for work in works]
    new = [(work.outcome.problem, draft) for work, drafts in wanted for draft in drafts if draft.id not in verdicts]
    requests = [
        Request(task=each.task, candidate=draft.completion.candidate(each.dialect), dialect=each.dialect)
        for each, draft in new
    ]
    refusals: Sequence[str | None] = [None] * len(new) if setting.screen is None else setting.screen.refusals(new)
    to_judge = [
        index for index, (_, draft) in enumerate(new) if draft.answer.failure is None and refusals[index] is None
    ]
    judged = dict(zip(to_judge, setting.executor.evaluate([requests[index] for index in to_judge]), strict=True))
    for index, (_, draft) in enumerate(new):
        if index in judged:
            continue
        if draft.answer.refused is not None:
            judged[index] = no_answer(requests[index], draft.answer.refused)
        elif draft.answer.failure is not None:
            said = f"The policy did not answer: {draft.answer.failure}"
            judged[index] = not_known(requests[index], "none", "executor", said)
        else:
            verdict = not_known(requests[index], "none", "executor", str(refusals[index]))
            judged[index] = verdict.model_copy(update={"protocol": REFUSED})
    found = [Attempt(draft, draft.completion, judged[index]) for index, (_, draft) in enumerate(new)]
    ledger.append(_record(setting, attempt) for attempt in found)
    verdicts.update({attempt.id: attempt.verdict for attempt in found})
    for work, drafts in wanted:
        work.judged([Attempt(draft, draft.completion, verdicts[draft.id]) for draft in drafts])


def _record(setting: Setting, attempt: Attempt) -> Record:
    score = setting.reward.alone(attempt.completion, attempt.verdict)
    role = attempt.draft.question.role
    return Record.of(
        id=attempt.id,
        policy=setting.names.get(role, setting.names[CODER]),
        rewards=score.parts,
        reward=score.total,
        strategy=setting.strategy.name,
        parent=attempt.parent.id if attempt.parent else None,
        **attempt.fields,
    )


def _hash(question: Question) -> int:
    """Of what is in the journal of a question."""
    return hash((question.role, to_text(question.messages)))


def _seed(seed: int, id: str) -> int:
    """Of one answer: the same in every run, whatever else is asked."""
    return int.from_bytes(hashlib.sha256(f"{seed}\0{id}".encode()).digest()[:4], "big") >> 1
