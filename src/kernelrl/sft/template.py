"""Examples as the policy's chat template writes them: what is learnt has to be what the policy is asked for later."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

from transformers import PreTrainedTokenizerBase

from kernelrl.candidate import Completion
from kernelrl.errors import UserError
from kernelrl.policies.prompts import render
from kernelrl.policies.settings import ModelSettings

Row = dict[str, Any]
WAY_OUT = "give a template that does: +sft.trainer.chat_template_path=FILE.jinja"

log = logging.getLogger(__name__)


def fit_template(
    rows: list[Row], tokenizer: PreTrainedTokenizerBase, settings: ModelSettings, ends: Collection[int]
) -> list[Row]:
    """The rows as they can be learnt: without their reasoning, where the prompt has closed it already.

    One example says it for all: a row with reasoning, where there is one.

    Args:
        rows: have a `prompt` and a `completion`.
        ends: ids of the tokens that end a generation.

    Raises:
        UserError: the template writes a prompt otherwise when its answer follows, leaves the reasoning out of the
            answer, or ends no answer by one of the ends.
    """
    if not rows:
        return rows
    row = next((row for row in rows if _reasoning(row)), rows[0])
    prompt = render(tokenizer, row["prompt"], settings.chat_template_kwargs)
    if not _is_kept(row, prompt, tokenizer, settings):
        row = _without_reasoning(row)
        if not _is_kept(row, prompt, tokenizer, settings):
            raise UserError(
                f"sft: the chat template ends a prompt by {prompt[-40:]!r}, and an example's answer does not follow "
                f"there with its reasoning: the policy would be asked otherwise than it was taught; {WAY_OUT}"
            )
        log.warning("sft: the chat template closes the reasoning in the prompt: examples are learnt without theirs")
        rows = [_without_reasoning(each) for each in rows]
    whole = _whole(row, tokenizer, settings)
    learnt = tokenizer(whole[len(prompt) :], add_special_tokens=False)["input_ids"]
    if not set(learnt) & set(ends):
        answer = Completion.parse(row["completion"][-1]["content"]).answer.strip()
        end = next(iter(whole.rpartition(answer)[2].split()), "")
        way_out = f"name the token that should: \"+sft.trainer.eos_token='{end}'\"" if end else WAY_OUT
        raise UserError(
            f"sft: the chat template ends an answer by {end!r}, which ends no generation of this model: the policy "
            f"would never stop; {way_out}"
        )
    return rows


def _is_kept(row: Row, prompt: str, tokenizer: PreTrainedTokenizerBase, settings: ModelSettings) -> bool:
    """Whether the prompt, the reasoning and nothing else stand before the answer."""
    whole = _whole(row, tokenizer, settings)
    return whole.startswith(prompt) and _reasoning(row) in whole[len(prompt) :]


def _whole(row: Row, tokenizer: PreTrainedTokenizerBase, settings: ModelSettings) -> str:
    messages = [*row["prompt"], *row["completion"]]
    return str(tokenizer.apply_chat_template(messages, tokenize=False, **settings.chat_template_kwargs))


def _reasoning(row: Row) -> str:
    return Completion.parse(row["completion"][-1]["content"]).reasoning


def _without_reasoning(row: Row) -> Row:
    *earlier, last = row["completion"]
    return row | {"completion": [*earlier, last | {"content": Completion.parse(last["content"]).answer.lstrip()}]}
