"""One answer, without a second look: what the field calls pass@1."""

from __future__ import annotations

from kernelrl.strategies.protocol import Problem, Question, Strategy, Turns, write


class Single(Strategy):
    """Ask once."""

    def turns(self, problem: Problem) -> Turns[None]:
        yield from write([Question(problem.prompt)])


STRATEGY = Single
