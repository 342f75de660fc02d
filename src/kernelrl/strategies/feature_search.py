"""Feature search and reinforcement: N candidates a round, D rounds, the fastest are the seeds of the next.

Source: CUDA-LLM, FSR (arXiv 2506.09092): generate N candidates, compile, test and profile them; while none is right,
ask again with the errors; otherwise go on from the fastest.

What differs here: the next round is asked to recombine the features of the `seeds` fastest kernels in one, where FSR
goes on from a single one; each failed candidate is prompted with its own error.
"""

from __future__ import annotations

from itertools import cycle, islice

from pydantic import PositiveInt

from kernelrl.policies.prompts import Message
from kernelrl.strategies.feedback import Feedback
from kernelrl.strategies.protocol import Attempt, Problem, Question, Strategy, Turns, write
from kernelrl.strategies.wording import ANSWER, fence, user


class FeatureSearch(Strategy):
    """N x D candidates."""

    n: PositiveInt
    """Candidates in a round."""
    depth: PositiveInt
    """Rounds."""
    seeds: PositiveInt
    """Right kernels that a round goes on from."""
    feedback: Feedback

    def turns(self, problem: Problem) -> Turns[None]:
        attempts = yield from write([Question(problem.prompt)] * self.n)
        for _ in range(1, self.depth):
            right = sorted((each for each in attempts if each.verdict.correct), key=lambda each: -each.score)
            if right:
                questions = [Question(self.recombination(problem, right[: self.seeds]), right[0])] * self.n
            else:
                failed = islice(cycle(attempts[-self.n :]), self.n)
                questions = [Question(self.correction(problem, each), each) for each in failed]
            attempts += yield from write(questions)

    def recombination(self, problem: Problem, seeds: list[Attempt]) -> list[Message]:
        """The question after right kernels, the fastest first, as many as fit."""
        shown = "\n".join(self._shown(number, seed) for number, seed in enumerate(seeds, 1))
        messages = _extended(
            problem,
            f"Right kernels for it, the fastest first:\n\n{shown}\n"
            f"Name the features that make them fast, and write one kernel that combines those and is faster. {ANSWER}",
        )
        if len(seeds) > 1 and not problem.fits(messages):
            return self.recombination(problem, seeds[:-1])
        return messages

    def correction(self, problem: Problem, failed: Attempt) -> list[Message]:
        """The question after a kernel that is wrong."""
        return _extended(problem, f"A kernel for it:\n\n{self._shown(1, failed)}\nCorrect it. {ANSWER}")

    def _shown(self, number: int, attempt: Attempt) -> str:
        source = attempt.completion.source
        kernel = "(no kernel)\n" if source is None else fence(source)
        return f"Kernel {number}:\n{kernel}{self.feedback(attempt.verdict, source)}\n"


def _extended(problem: Problem, text: str) -> list[Message]:
    *before, last = problem.prompt
    return [*before, user(f"{last['content'].rstrip()}\n\n{text}")]


STRATEGY = FeatureSearch
