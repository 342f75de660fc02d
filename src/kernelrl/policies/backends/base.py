"""What the ways to sample a policy have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from kernelrl.policies.prompts import Message
from kernelrl.policies.protocol import Answer

TOO_LONG = "too long"
"""`Answer.failure` of a conversation that leaves no room for an answer in the model's context."""


class Backend(ABC):
    """A `Policy` whose answers can be had as they come."""

    @abstractmethod
    def stream(self, conversations: Sequence[list[Message]], seeds: Sequence[int]) -> Iterator[tuple[int, Answer]]:
        """The answers of `sample` in the order in which they are there, each with the index of its conversation.

        Raises:
            CancelledError: it was closed before, or is meanwhile.
        """

    def ask(self, conversations: Sequence[list[Message]], seeds: Sequence[int]) -> Iterator[tuple[int, Answer]]:
        """The same, but a conversation that is `too_long` is refused without being asked."""
        short = []
        for index, messages in enumerate(conversations):
            if (reason := self.too_long(messages)) is None:
                short.append(index)
            else:
                yield index, Answer(failure=TOO_LONG, refused=reason)
        if short:
            came = self.stream([conversations[index] for index in short], [seeds[index] for index in short])
            yield from ((short[number], answer) for number, answer in came)

    def sample(self, conversations: Sequence[list[Message]], seeds: Sequence[int]) -> list[Answer]:
        """See `Policy.sample`."""
        answers = dict(self.ask(conversations, seeds))
        return [answers[index] for index in range(len(conversations))]

    def too_long(self, messages: list[Message]) -> str | None:
        """Why a conversation leaves no room for a whole answer in the model's context, and what to do about it.

        Returns:
            None: there is room, or nobody knows how long the context is.
        """
        return None

    @abstractmethod
    def close(self) -> None:
        """Free what it holds, and drop what is not answered yet."""
