"""n answers that know nothing of each other; the best verdict counts."""

from __future__ import annotations

from pydantic import PositiveInt

from kernelrl.strategies.protocol import Problem, Question, Strategy, Turns, write


class BestOfN(Strategy):
    """Ask n times at once."""

    n: PositiveInt

    def turns(self, problem: Problem) -> Turns[None]:
        yield from write([Question(problem.prompt)] * self.n)


STRATEGY = BestOfN
