"""What asking a language model costs: an estimate before the first question, and a limit while it is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from kernelrl.errors import UserError
from kernelrl.policies.backends.settings import Prices, Settings
from kernelrl.policies.prompts import Message
from kernelrl.policies.protocol import Answer
from kernelrl.task import Task

CHARS_PER_TOKEN = 4
"""About, in English and in code."""
LOOKED_AT = 100
"""Tasks whose prompts are measured; the others are taken to be as long."""


@dataclass(frozen=True)
class Estimate:
    """What questions take at most; None: not known."""

    questions: int
    prompt_tokens: int
    completion_tokens: int | None
    cost: float | None

    def __str__(self) -> str:
        answers = "any number" if self.completion_tokens is None else f"at most {self.completion_tokens:,}"
        cost = "unknown, see teacher.prices" if self.cost is None else f"at most {self.cost:,.2f}"
        return (
            f"{self.questions:,} questions if all are asked, with about {self.prompt_tokens:,} tokens and {answers} "
            f"in their answers: the cost is {cost}"
        )


def estimate(tasks: Sequence[Task], questions: Callable[[Task], list[list[Message]]], settings: Settings) -> Estimate:
    """What asking about tasks takes at most: answers as long as they may be, none of them kept from an earlier run."""
    looked_at = list(islice(tasks, LOOKED_AT))
    asked = [messages for task in looked_at for messages in questions(task)]
    share = len(tasks) / max(len(looked_at), 1)
    chars = sum(len(message["content"]) for messages in asked for message in messages)
    number, prompt = round(len(asked) * share), round(chars * share / CHARS_PER_TOKEN)
    longest: int | None = getattr(settings, "max_new_tokens", None)
    completion = None if longest is None else number * longest
    prices: Prices | None = getattr(settings, "prices", None)
    return Estimate(number, prompt, completion, prices.cost(prompt, completion) if prices else None)


class Purse:
    """What one run has spent, and whether it may go on.

    Args:
        most: that the run may cost; None: no limit.

    Raises:
        UserError: there is a limit, and a price is not known.
    """

    def __init__(self, most: float | None, prices: Prices | None):
        if most is not None and (prices is None or None in (prices.prompt, prices.completion)):
            raise UserError(f"teacher.max_cost={most} needs teacher.prices.prompt and .completion")
        self._most = most
        self._prices = prices
        self._counted = 0.0
        """What the limit is held against: the cost of each answer, estimated where it does not say."""
        self._cost: float | None = 0.0
        self._tokens: tuple[int, int] | None = (0, 0)

    @property
    def spent(self) -> dict[str, Any]:
        """Tokens and cost; None: an answer did not say."""
        prompt, completion = self._tokens or (None, None)
        return {"prompt_tokens": prompt, "completion_tokens": completion, "cost": self._cost}

    def pay(self, answer: Answer, asked: Estimate) -> None:
        """Count what an answer took; where it does not say, what one of the questions `asked` takes at most."""
        if answer.prompt_tokens is None or answer.completion_tokens is None or self._tokens is None:
            self._tokens = None
        else:
            self._tokens = self._tokens[0] + answer.prompt_tokens, self._tokens[1] + answer.completion_tokens
        self._cost = None if self._cost is None or answer.cost is None else self._cost + answer.cost
        self._counted += self._guess(answer, asked) if answer.cost is None else answer.cost

    def forbids(self, following: Estimate | None) -> bool:
        """Whether nothing more may be asked.

        Args:
            following: of a batch, which cannot be stopped once it is asked; None: of single questions, of which those
                under way are finished.
        """
        if self._most is None:
            return False
        if following is None:
            return self._counted >= self._most
        return following.cost is None or self._counted + following.cost > self._most

    def _guess(self, answer: Answer, asked: Estimate) -> float:
        """The most that an answer without its cost may have cost; without a limit of tokens, by its visible text."""
        if self._prices is None:
            return 0.0
        prompt, completion = answer.prompt_tokens, answer.completion_tokens
        if prompt is None:
            prompt = asked.prompt_tokens // asked.questions
        if completion is None and asked.completion_tokens is not None:
            completion = asked.completion_tokens // asked.questions
        if completion is None:
            completion = len(answer.text) // CHARS_PER_TOKEN
        return self._prices.cost(prompt, completion) or 0.0
