"""What every way to sample a policy has in common: conversations in, answers out.

Evaluation, teachers, the verifier and every strategy speak to a `Policy`; which library or server stands behind it is
a choice of the config.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from kernelrl.policies.prompts import Message

Finish = Literal["stop", "length"]
"""Why a completion ended: the policy ended it, or it was cut off at the limit of tokens."""


@dataclass(frozen=True)
class Answer:
    """What a policy wrote in answer to one conversation, or why it did not."""

    text: str = ""
    """As `Completion.parse` reads it: the chain of thought in `<think>` tags, then the answer."""
    finish: Finish | None = None
    """None: the server does not say."""
    token_ids: tuple[int, ...] | None = None
    """Of the completion, without padding; None: the server does not say."""
    log_probabilities: tuple[float, ...] | None = None
    """Natural logarithms, one per token of `token_ids`, under the distribution that was sampled from (its temperature
    and cut-offs included); None: not asked for, or the server does not say."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost: float | None = None
    """In the currency of the price table; None: no prices are known."""
    failure: str | None = None
    """Kind of failure, e.g. `HTTP 500`; None: the policy answered."""
    refused: str | None = None
    """Of a failure, why the policy takes no such question, however often it is asked; None: it may answer next time."""
    cached: bool = False
    """Read from a cache of answers: it cost nothing this time."""

    @property
    def usage(self) -> dict[str, Any]:
        """What a record says of it beside its text."""
        names = ("finish", "prompt_tokens", "completion_tokens")
        return {name: getattr(self, name) for name in names}


class Policy(Protocol):
    """A policy that is ready to write. Close it when it is no longer needed. Several threads may ask it."""

    def sample(self, conversations: Sequence[list[Message]], seeds: Sequence[int]) -> list[Answer]:
        """One answer per conversation, in their order.

        Args:
            conversations: each ends with a message of the user's.
            seeds: one per conversation. Equal calls give equal answers; a server's word on that is taken as it is.

        Raises:
            UserError: the policy cannot be asked at all (no such model, no key, no server). What happens to a single
                question is an `Answer` with a `failure`.
        """
        ...

    def close(self) -> None: ...
