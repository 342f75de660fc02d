"""A Judge reads what the hardware says and names one thing; a Coder carries it out.

Source: CudaForge (arXiv 2511.01884): 10 rounds without history. On a wrong kernel the Judge names the one fault that
decides; on a right one it reads the measurements, cites three or four, and names one optimisation. The Coder sees the
task, the last kernel and the advice.

What differs here: the Judge reads the executor's times, bound, memory, registers and spills, and counters of the
hardware where `executor.counters` asks for them (on a GPU what Nsight Compute says of time, throughput, bytes, active
warps and what they wait for most); a kernel that got worse is given up for the best right one before it. The Judge may
be another policy (`policy@policies.judge=…`), or the same one in another role.
"""

from __future__ import annotations

from pydantic import PositiveInt

from kernelrl.policies.prompts import Message
from kernelrl.strategies.feedback import Feedback
from kernelrl.strategies.protocol import CODER, Attempt, Problem, Question, Strategy, Turns, ask, write
from kernelrl.strategies.wording import ANSWER, fence, user

JUDGE = "judge"
FAULT = (
    "You review a kernel that is wrong. From the report, find the one fault that decides, and say in a few sentences "
    "where it is and how to correct it. Name one fault alone, and write no kernel."
)
OPTIMISATION = (
    "You review a kernel that is right. Cite the three or four measurements of the report that matter most, and name "
    "the one optimisation that they call for, in a few sentences. Name one optimisation alone, and write no kernel."
)


class CoderJudge(Strategy):
    """One kernel, then rounds of advice and revision."""

    rounds: PositiveInt
    """Kernels, the first one included."""
    feedback: Feedback

    @property
    def roles(self) -> tuple[str, ...]:
        return (CODER, JUDGE)

    def turns(self, problem: Problem) -> Turns[None]:
        attempts = yield from write([Question(problem.prompt)])
        for _ in range(1, self.rounds):
            if not attempts:
                return
            current = max(reversed(attempts), key=lambda attempt: attempt.score)
            advice = yield from ask([Question(self.review(problem, current), current, JUDGE)])
            for draft in advice:
                asked = revision(problem, current, draft.completion.answer)
                attempts += yield from write([Question(asked, current, advice=draft)])

    def review(self, problem: Problem, attempt: Attempt) -> list[Message]:
        """What the Judge is asked."""
        wanted = OPTIMISATION if attempt.verdict.correct else FAULT
        report = self.feedback(attempt.verdict, attempt.completion.source)
        return [
            user(
                f"{wanted}\n\nThe program that the kernel replaces:\n{fence(problem.task.source)}\n"
                f"The kernel:\n{_kernel(attempt)}\nThe report:\n{report}"
            )
        ]


def revision(problem: Problem, attempt: Attempt, advice: str) -> list[Message]:
    """What the Coder is asked after advice."""
    *before, last = problem.prompt
    text = (
        f"{last['content'].rstrip()}\n\nThe kernel so far:\n{_kernel(attempt)}\n"
        f"A reviewer says of it:\n{advice.strip()}\n\nCarry out this advice, and change nothing else. {ANSWER}"
    )
    return [*before, user(text)]


def _kernel(attempt: Attempt) -> str:
    source = attempt.completion.source
    return "(There was none.)\n" if source is None else fence(source)


STRATEGY = CoderJudge
