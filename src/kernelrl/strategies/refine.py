"""Multi-turn refinement: the policy hears what became of its kernel, and tries again.

Sources: Kevin-32B (arXiv 2507.11948): up to T turns; of earlier turns the chain of thought is dropped, and the kernel
and what the policy says of it are kept; Dr. Kernel (arXiv 2602.05885): the same with a profile in the feedback. Trained
with `R_t = sum_{i>=t} gamma^(i-t) s_i` (`grpo/returns.py`).

What differs here: no summary is asked for; feedback names the first error alone, and the machine's limit; a trajectory
may stop at a speedup that is good enough; where a conversation outgrows the context, its oldest turns go first, and are
counted.
"""

from __future__ import annotations

from pydantic import PositiveFloat, PositiveInt

from kernelrl.policies.prompts import Message
from kernelrl.strategies.feedback import Feedback
from kernelrl.strategies.protocol import Attempt, Problem, Question, Strategy, Turns, write
from kernelrl.strategies.wording import ANSWER, assistant, user

AGAIN = "Correct it, if it is wrong; make it faster, if it is right. " + ANSWER


class Refine(Strategy):
    """m trajectories of up to T turns each, side by side."""

    trajectories: PositiveInt
    max_turns: PositiveInt
    """T, the first one included."""
    stop_at: PositiveFloat | None
    """A trajectory ends with a right kernel whose speedup's lower bound is at least this; None: it never does."""
    feedback: Feedback

    def turns(self, problem: Problem) -> Turns[None]:
        attempts = yield from write([Question(problem.prompt)] * self.trajectories)
        for _ in range(1, self.max_turns):
            attempts = [attempt for attempt in attempts if not self._stops(attempt)]
            attempts = yield from write([Question(self.conversation(problem, each), each) for each in attempts])

    def conversation(self, problem: Problem, last: Attempt) -> list[Message]:
        """The question after an attempt, with as many of the turns before it as fit.

        Where the attempt alone is too long, it is asked about all the same: the runner refuses the question.
        """
        turns: list[Message] = []
        attempt: Attempt | None = last
        while attempt is not None:
            heard = f"{self.feedback(attempt.verdict, attempt.completion.source)}\n\n{AGAIN}"
            longer = [assistant(attempt.completion.answer.strip()), user(heard), *turns]
            if turns and not problem.fits([*problem.prompt, *longer]):
                problem.dropped += attempt.turn + 1
                break
            turns, attempt = longer, attempt.parent
        return [*problem.prompt, *turns]

    def _stops(self, attempt: Attempt) -> bool:
        if attempt.draft.answer.failure is not None:  # there is nothing to go on from
            return True
        speedup = attempt.verdict.speedup if attempt.verdict.correct else None
        return self.stop_at is not None and speedup is not None and speedup.low >= self.stop_at


STRATEGY = Refine
