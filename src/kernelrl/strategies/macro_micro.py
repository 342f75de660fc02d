"""A macro policy picks the next optimisation from a list; a micro coder carries out that one.

Source: QiMeng-Kernel, MTMC (arXiv 2511.20100): actions {tiling, fusion, pipeline, reordering} on a region of the code
are chosen by a small policy that is trained by RL; a general model implements one step at a time. The staged reward is
compiles, then correct, then faster, and falls with the number of steps.

What differs here: the whole program is the region; the first action is for the reference itself; `stop` is an action,
so that the macro policy need not make a good kernel worse, and earns what actions without effect would have earned in
all the steps that are left; an answer that names no action takes the first of the list that was not tried on this
kernel, and earns nothing; a wrong kernel is repaired without asking the macro policy; a step that made a kernel worse
is taken back. With `grpo.turns.role=macro` the macro policy is trained on its actions alone, and not on those whose
coder refused the question.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic import Field, PositiveInt

from kernelrl.policies.prompts import Message
from kernelrl.strategies.feedback import Feedback
from kernelrl.strategies.protocol import CODER, Attempt, Draft, Problem, Question, Strategy, Turns, ask, write
from kernelrl.strategies.wording import ANSWER, fence, user

MACRO = "macro"
STOP = "stop"
REPAIR = "Correct the kernel; change nothing that is not wrong."
_ACTION = re.compile(r"ACTION\W+(\w+)", re.IGNORECASE)


class MacroMicro(Strategy):
    """Steps of one action each, the first one on the reference."""

    steps: PositiveInt
    """Kernels at most."""
    actions: dict[str, str] = Field(min_length=1)
    """Name -> what the coder is told to do."""
    feedback: Feedback

    @property
    def roles(self) -> tuple[str, ...]:
        return (CODER, MACRO)

    def turns(self, problem: Problem) -> Turns[None]:
        attempts: list[Attempt] = []
        tried: dict[str | None, list[str]] = {}
        for _ in range(self.steps):
            current = max(reversed(attempts), key=lambda attempt: attempt.score, default=None)
            choice, order = None, REPAIR
            if current is None or current.verdict.correct:
                done = tried.setdefault(current.id if current else None, [])
                choices = yield from ask([Question(self.choice(problem, current, done), current, MACRO)])
                if not choices:
                    return
                choice = choices[0]
                action = self.read_action(choice, done)
                if action == STOP:
                    return
                done.append(action)
                order = f"{action}: {self.actions[action]}"
            made = yield from write([Question(self.step(problem, current, order), current, advice=choice)])
            if not made:
                return
            attempts += made

    def choice(self, problem: Problem, current: Attempt | None, done: list[str]) -> list[Message]:
        """What the macro policy is asked."""
        listed = "\n".join(f"- {name}: {text}" for name, text in self.actions.items())
        if current is None:
            about = f"Choose how to begin a kernel for this program.\n{listed}\n\n{fence(problem.task.source)}"
        else:
            source = current.completion.source or ""
            about = (
                f"Choose the next optimisation of this kernel.\n{listed}\n- {STOP}: it is as good as it gets\n\n"
                f"{fence(source)}{self.feedback(current.verdict, source)}\n"
            )
        tried = f"Tried on this kernel, and no better: {', '.join(done)}.\n" if done else ""
        return [user(f"{about}{tried}Answer with one line: ACTION: its name.")]

    def named(self, choice: Draft) -> str | None:
        """The action that an answer names last; None: it names none that there is."""
        known = [*self.actions, *([STOP] if choice.question.parent else [])]
        named = [name.lower() for name in _ACTION.findall(choice.answer.text)]
        return next((name for name in reversed(named) if name in known), None)

    def read_action(self, choice: Draft, done: list[str]) -> str:
        """The action that an answer names, or the first that was not tried."""
        return self.named(choice) or next((name for name in self.actions if name not in done), STOP)

    def paid_by(self, draft: Draft, attempts: Sequence[Attempt]) -> Attempt | None:
        """An action earns what the kernel that follows it does, `stop` what the kernel that it keeps does."""
        if draft.question.role == MACRO:
            action = self.named(draft)
            if action in (None, STOP):
                return draft.question.parent if action else None
        return super().paid_by(draft, attempts)

    def steps_saved(self, draft: Draft, attempts: Sequence[Attempt]) -> int:
        """`stop` saves the steps that are left but for one, which an action in its place would have taken itself."""
        stops = draft.question.role == MACRO and self.named(draft) == STOP
        return max(self.steps - len(attempts) - 1, 0) if stops else 0

    def step(self, problem: Problem, current: Attempt | None, order: str) -> list[Message]:
        """What the coder is asked."""
        *before, last = problem.prompt
        so_far = ""
        if current is not None:
            source = current.completion.source
            kernel = fence(source) if source else "(There was none.)\n"
            so_far = f"The kernel so far:\n{kernel}{self.feedback(current.verdict, source)}\n\n"
        text = f"{last['content'].rstrip()}\n\n{so_far}Do this one thing: {order} {ANSWER}"
        return [*before, user(text)]


STRATEGY = MacroMicro
