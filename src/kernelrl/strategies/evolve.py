"""Evolution: islands of kernels, bred by an ensemble of prompts and policies, filtered before they cost hardware.

Source: robust-kbench (arXiv 2509.14279): proposals come from an ensemble of models with exemplars of earlier kernels in
the prompt, and language models that verify softly (does it compile, is the memory safe, are the numbers right?) filter
them before they are compiled.

What differs here: populations are islands that exchange their best kernel every `migration` generations (as FunSearch
does, Nature 625, 2024); one verifier gives a number from 0 to 1, and an answer without a number lets the kernel pass,
because only hardware may judge; `verifier` null: all are judged.
"""

from __future__ import annotations

import re
from itertools import cycle, islice
from typing import Annotated

from pydantic import Field, PositiveInt

from kernelrl.policies.prompts import Message
from kernelrl.strategies.feedback import Feedback
from kernelrl.strategies.protocol import CODER, Attempt, Draft, Problem, Question, Strategy, Turns, ask, judge
from kernelrl.strategies.wording import ANSWER, fence, user

VERIFIER = "verifier"
OPINION = (
    "You check a kernel before it is compiled. Does it compile, stay within its tensors, and compute the same as the "
    "program? Explain in a few sentences, and end with one line: SCORE: a number from 0 (certainly not) to 1."
)
_SCORE = re.compile(r"^\W*SCORE\W*([01](?:\.\d+)?)\W*$", re.MULTILINE | re.IGNORECASE)


class Evolve(Strategy):
    """Generations of one child per island and prompt."""

    islands: PositiveInt
    generations: PositiveInt
    """The first one, which has no parents, included."""
    population: PositiveInt
    """Kernels that an island keeps."""
    inspirations: int = Field(ge=0)
    """Further kernels of the island that are shown beside the parent."""
    migration: PositiveInt
    """Generations between two exchanges of the islands' best kernels."""
    prompts: tuple[str, ...] = Field(min_length=1)
    """Directions of change; each island takes the next one in each generation."""
    ensemble: tuple[str, ...] = Field(min_length=1)
    """Roles that write, by turns; `coder` is the policy, others are `policy@policies.ROLE`."""
    verifier: Annotated[float, Field(ge=0, le=1)] | None
    """Smallest score of the verifier with which a kernel is judged by hardware; None: no verifier is asked."""
    feedback: Feedback

    @property
    def roles(self) -> tuple[str, ...]:
        return (*dict.fromkeys(self.ensemble), *(() if self.verifier is None else (VERIFIER,)))

    @property
    def trainable(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.ensemble))

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(role for role in self.ensemble if role != CODER)

    def turns(self, problem: Problem) -> Turns[None]:
        islands: list[list[Attempt]] = [[] for _ in range(self.islands)]
        directions, writers = cycle(self.prompts), cycle(self.ensemble)
        for generation in range(self.generations):
            questions = [
                self._question(problem, island, direction, writer)
                for island, direction, writer in zip(islands, directions, islice(writers, self.islands), strict=False)
            ]
            drafts = yield from ask(questions)
            chosen = yield from self._filter(problem, drafts)
            of_island = {id(question): number for number, question in enumerate(questions)}
            for child in (yield from judge(chosen)):
                islands[of_island[id(child.draft.question)]].append(child)
            islands = [sorted(each, key=lambda child: -child.score)[: self.population] for each in islands]
            if (generation + 1) % self.migration == 0:
                bests = [island[:1] for island in islands]
                islands = [
                    island + [each for each in best if each not in island]
                    for island, best in zip(islands, [*bests[-1:], *bests[:-1]], strict=True)
                ]

    def _question(self, problem: Problem, island: list[Attempt], direction: str, writer: str) -> Question:
        if not island:
            return Question(list(problem.prompt), None, writer)
        ranks = [1 / rank for rank in range(1, len(island) + 1)]
        (parent,) = problem.rng.choices(island, ranks)
        others = [each for each in island if each is not parent and each.verdict.correct][: self.inspirations]
        while others and not problem.fits(self.conversation(problem, parent, others, direction)):
            others.pop()
        return Question(self.conversation(problem, parent, others, direction), parent, writer)

    def conversation(self, problem: Problem, parent: Attempt, others: list[Attempt], direction: str) -> list[Message]:
        """What is asked about a parent."""
        *before, last = problem.prompt
        inspirations = "\n".join(f"Another right kernel:\n{fence(each.completion.source or '')}" for each in others)
        kernel = fence(parent.completion.source) if parent.completion.source else "(There was none.)\n"
        text = (
            f"{last['content'].rstrip()}\n\nThe kernel so far:\n{kernel}"
            f"{self.feedback(parent.verdict, parent.completion.source)}\n\n{inspirations}\n{direction} {ANSWER}"
        )
        return [*before, user(text)]

    def _filter(self, problem: Problem, drafts: list[Draft]) -> Turns[list[Draft]]:
        """The drafts that are worth the hardware."""
        if self.verifier is None:
            return drafts
        questions = [Question(_check(problem, draft), draft.question.parent, VERIFIER) for draft in drafts]
        opinions = yield from ask(questions)
        scores = [read_score(opinion.answer.text) for opinion in opinions]
        scores += [None] * (len(drafts) - len(scores))  # where the budget of completions ended
        return [draft for draft, score in zip(drafts, scores, strict=True) if score is None or score >= self.verifier]


def _check(problem: Problem, draft: Draft) -> list[Message]:
    source = draft.completion.source or ""
    return [user(f"{OPINION}\n\nThe program:\n{fence(problem.task.source)}\nThe kernel:\n{fence(source)}")]


def read_score(text: str) -> float | None:
    """The number of the last line that holds one; None: there is none."""
    found = _SCORE.findall(text)
    return min(float(found[-1]), 1.0) if found else None


STRATEGY = Evolve
