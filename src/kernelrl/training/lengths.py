"""Rows that are longer than a model is to read are left out, and counted, instead of being cut off in the middle."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from transformers import PreTrainedTokenizerBase

from kernelrl.errors import UserError
from kernelrl.policies.prompts import render
from kernelrl.policies.settings import ModelSettings

Row = dict[str, Any]
log = logging.getLogger(__name__)


def keep_short_prompts(
    rows: list[Row],
    tokenizer: PreTrainedTokenizerBase,
    settings: ModelSettings,
    max_length: int | None,
    name: str = "grpo.max_prompt_length",
    what: str = "rows",
) -> list[Row]:
    """The rows whose `prompt` has at most so many tokens; None: all.

    Args:
        name: of the limit, in messages.
        what: the rows are, in messages.

    Raises:
        UserError: there are none.
    """

    def text(row: Row) -> str:
        return render(tokenizer, row["prompt"], settings.chat_template_kwargs)

    return _keep_short(rows, tokenizer, text, max_length, name, what)


def keep_short_conversations(
    rows: list[Row],
    tokenizer: PreTrainedTokenizerBase,
    settings: ModelSettings,
    max_length: int | None,
    what: str = "rows",
) -> list[Row]:
    """The rows whose `prompt` and `completion` have at most so many tokens together; None: all.

    The trainer would cut the others off: a kernel without its end is no example of one.

    Raises:
        UserError: there are none.
    """

    def text(row: Row) -> str:
        messages = [*row["prompt"], *row["completion"]]
        return str(tokenizer.apply_chat_template(messages, tokenize=False, **settings.chat_template_kwargs))

    return _keep_short(rows, tokenizer, text, max_length, "sft.trainer.max_length", what)


def _keep_short(
    rows: list[Row],
    tokenizer: PreTrainedTokenizerBase,
    text: Callable[[Row], str],
    max_length: int | None,
    name: str,
    what: str,
) -> list[Row]:
    if max_length is None:
        return rows
    lengths = [len(tokenizer(text(row), add_special_tokens=False)["input_ids"]) for row in rows]
    kept = [row for row, length in zip(rows, lengths, strict=True) if length <= max_length]
    if not kept:
        raise UserError(
            f"{name}={max_length}: all {what} are longer, the shortest by {min(lengths) - max_length} tokens"
        )
    if len(kept) < len(rows):
        log.warning(f"{name}={max_length}: {len(rows) - len(kept)} of {len(rows)} {what} are longer and left out")
    return kept
