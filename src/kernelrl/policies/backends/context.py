"""How long a conversation may be: it shares the model's context with the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import PreTrainedTokenizerBase

from kernelrl.policies.prompts import Message, render


class Context:
    """The context of a model that is loaded here.

    Args:
        length: of the context (in tokens); None: not known.
        max_new_tokens: of an answer.
        template: keyword arguments of the chat template.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, length: int | None, max_new_tokens: int, template: Mapping[str, Any]
    ):
        self._tokenizer = tokenizer
        self._length = length
        self._max_new_tokens = max_new_tokens
        self._template = template

    def too_long(self, messages: list[Message]) -> str | None:
        """See `Backend.too_long`."""
        if self._length is None:
            return None
        text = render(self._tokenizer, messages, self._template)
        number = len(self._tokenizer(text, add_special_tokens=False)["input_ids"])
        if number + self._max_new_tokens <= self._length:
            return None
        return (
            f"the conversation has {number} tokens, and with max_new_tokens={self._max_new_tokens} for the answer that "
            f"is more than the model's context of {self._length}; lower max_new_tokens, let the prompt or the strategy "
            "show less, or take a policy with a longer context"
        )


def context_length(config: Any) -> int | None:
    """That of a model by its config (in tokens); None: it does not say."""
    length: int | None = getattr(config.get_text_config(), "max_position_embeddings", None)
    return length
