"""A policy that answers from known kernels, for whatever asks a policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kernelrl.policies.backends.base import Backend
from kernelrl.policies.prompts import Message
from kernelrl.policies.protocol import Answer


def completion(source: str, reasoning: str = "as always") -> str:
    return f"<think>\n{reasoning}\n</think>\nHere it is.\n```python\n{source}```\n"


class Scripted(Backend):
    """Answers each question by a function of the conversation and the number of the question, from 0.

    Args:
        fails_after: number of batches after which it cannot be reached.
        context: the most messages that it reads; None: any number.
    """

    def __init__(
        self,
        answer: Callable[[list[Message], int], str | Answer],
        fails_after: int | None = None,
        context: int | None = None,
    ):
        self.context = context
        self.answer = answer
        self.fails_after = fails_after
        self.batches: list[list[list[Message]]] = []
        self.seeds: list[int] = []

    @property
    def asked(self) -> list[list[Message]]:
        return [conversation for batch in self.batches for conversation in batch]

    def too_long(self, messages: list[Message]) -> str | None:
        if self.context is None or len(messages) <= self.context:
            return None
        return f"{len(messages)} messages are more than {self.context}; say less"

    def stream(self, conversations: Sequence[list[Message]], seeds: Sequence[int]) -> Iterator[tuple[int, Answer]]:
        if len(self.batches) == self.fails_after:
            raise KeyboardInterrupt
        first = len(self.asked)
        self.batches.append(list(conversations))
        self.seeds += seeds
        for index, conversation in enumerate(conversations):
            said = self.answer(conversation, first + index)
            yield index, Answer(text=said, prompt_tokens=10, completion_tokens=5) if isinstance(said, str) else said

    def close(self) -> None:
        pass
