"""Contrastive prompting: the policy sees scored kernels of its own, compares them, and writes a better one.

Source: CUDA-L1 (arXiv 2507.14111). Two exemplars come from different score buckets of the task's archive; bucket i is
drawn with probability `exp((s_i - mean s) / tau) / sum_j exp((s_j - mean s) / tau)`, s_i being its mean score, and a
kernel within it uniformly. The policy is asked for performance analysis, then design, then code.

What differs here: a bucket is 10 % of the score wide, whatever the task; the score is 0.3 plus the lower confidence
bound of the speedup; as long as the archive has fewer than two buckets with right kernels, the policy is asked without
exemplars; in training each answer of a group has exemplars, and so a prompt, of its own.
"""

from __future__ import annotations

import math
from random import Random

from pydantic import Field, PositiveFloat, PositiveInt

from kernelrl.policies.prompts import Message
from kernelrl.strategies.archive import Exemplar, TaskArchive
from kernelrl.strategies.protocol import Problem, Question, Strategy, Turns, write
from kernelrl.strategies.wording import fence, user

COMPARE = (
    "First compare these kernels in a performance analysis: what makes the faster one faster? Then design a kernel "
    "that is faster than all of them. Then write it, in one Python code block that defines `ModelNew`."
)


class Contrastive(Strategy):
    """Rounds of n answers, each with exemplars of its own."""

    rounds: PositiveInt
    n: PositiveInt
    """Answers in a round."""
    exemplars: int = Field(ge=2)
    """Kernels shown, each from another bucket."""
    tau: PositiveFloat
    """Temperature of the buckets' probabilities, in units of the score: small prefers the fast ones."""

    def turns(self, problem: Problem) -> Turns[None]:
        for _ in range(self.rounds):
            yield from write([Question(self.conversation(problem)) for _ in range(self.n)])

    def conversation(self, problem: Problem) -> list[Message]:
        """The question with freshly drawn exemplars, or without where there are too few buckets, or no room."""
        *before, last = problem.prompt
        drawn = draw(problem.archive, self.exemplars, self.tau, problem.rng)
        if len(drawn) < 2:
            return problem.prompt
        shown = "\n".join(
            f"Kernel {number}, speedup {_speedup(each)}:\n{fence(each.source)}" for number, each in enumerate(drawn, 1)
        )
        text = f"{last['content'].rstrip()}\n\nKernels that were written for it earlier:\n\n{shown}\n{COMPARE}"
        messages = [*before, user(text)]
        return messages if problem.fits(messages) else problem.prompt


def draw(archive: TaskArchive, num: int, tau: float, rng: Random) -> list[Exemplar]:
    """Kernels from different score buckets, the slowest first; fewer where there are fewer buckets."""
    buckets = {
        name: (sum(each.score for each in members) / len(members), members)
        for name, members in archive.buckets().items()
    }
    drawn: list[Exemplar] = []
    while buckets and len(drawn) < num:
        top = max(mean for mean, _ in buckets.values())
        weights = [math.exp((mean - top) / tau) for mean, _ in buckets.values()]
        (name,) = rng.choices(list(buckets), weights)
        drawn.append(rng.choice(buckets.pop(name)[1]))
    return sorted(drawn, key=lambda each: each.score)


def _speedup(exemplar: Exemplar) -> str:
    speedup = exemplar.verdict.speedup
    return f"{speedup.median:.2f}" if speedup else "not measured"


STRATEGY = Contrastive
