"""What a strategy may spend on one problem, and what it has spent."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, PositiveFloat, PositiveInt

from kernelrl.errors import UserError
from kernelrl.policies.protocol import Answer
from kernelrl.verdict import Verdict

UNLIMITED = sys.maxsize


class Budget(BaseModel):
    """Limits for one problem; None: no limit.

    Completions and candidates are never exceeded. What else a request costs is known when it is done, so the others may
    be exceeded by one request."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    completions: PositiveInt | None = None
    """Answers of policies, advice and failures included."""
    tokens: PositiveInt | None = None
    """Of prompts and answers."""
    candidates: PositiveInt | None = None
    """Completions handed to the executor, with a kernel in them or not."""
    device_seconds: PositiveFloat | None = None
    """Time of the executor for this problem, without waiting (in seconds)."""
    cost: PositiveFloat | None = None
    """Money for answers (in the currency of the price table)."""

    @property
    def limited(self) -> bool:
        """Whether there is any limit."""
        return any(limit is not None for limit in self.model_dump().values())


@dataclass
class Spent:
    """What one problem has cost; in the units of `Budget`."""

    completions: int = 0
    tokens: int | None = 0
    """None: a policy does not say how many."""
    candidates: int = 0
    device_seconds: float = 0.0
    cost: float | None = 0.0
    """None: no prices are known."""

    def add_answer(self, answer: Answer) -> None:
        """Count an answer."""
        self.completions += 1
        if answer.failure is None:
            tokens = (answer.prompt_tokens, answer.completion_tokens)
            known = self.tokens is not None and None not in tokens
            self.tokens = self.tokens + sum(each or 0 for each in tokens) if known else None  # type: ignore[operator]
            self.cost = None if self.cost is None or answer.cost is None else self.cost + answer.cost

    def add_verdict(self, verdict: Verdict) -> None:
        """Count a candidate."""
        self.candidates += 1
        if not verdict.cached:
            self.device_seconds += max(verdict.seconds - (verdict.spent.waiting if verdict.spent else 0.0), 0.0)

    def to_json(self) -> dict[str, Any]:
        """As figures."""
        return asdict(self)

    def left_to_ask(self, budget: Budget) -> int:
        """How many more completions there may be; 0 where nothing more may be asked.

        Raises:
            UserError: the budget limits tokens or money, and the policy does not say what it spends of them.
        """
        for name in ("tokens", "cost"):
            limit, spent = getattr(budget, name), getattr(self, name)
            if limit is not None and spent is None:
                raise UserError(
                    f"search.budget.{name}={limit}: the policy does not say its {name}; limit something else"
                )
        if any(self._exceeds(budget, name) for name in Budget.model_fields):
            return 0
        return UNLIMITED if budget.completions is None else budget.completions - self.completions

    def left_to_judge(self, budget: Budget) -> int:
        """How many more candidates may be judged."""
        if self._exceeds(budget, "candidates") or self._exceeds(budget, "device_seconds"):
            return 0
        return UNLIMITED if budget.candidates is None else budget.candidates - self.candidates

    def _exceeds(self, budget: Budget, name: str) -> bool:
        limit = getattr(budget, name)
        return limit is not None and getattr(self, name) >= limit
