"""How long a reasoning is, in tokens: the measure of ConCuR's selection and of a task's difficulty."""

from __future__ import annotations

import re
from collections.abc import Callable

from omegaconf import DictConfig

from kernelrl.errors import UserError

Count = Callable[[str], int]
_WORD = re.compile(r"\w+|[^\w\s]")


def make_counter(tokenizer: str, model: DictConfig) -> Count:
    """The function that counts the tokens of a text.

    Args:
        tokenizer: `words` counts words and punctuation marks, which needs no tokenizer and is the same everywhere;
            `model` is the tokenizer of the run's model; anything else is a hub id or a folder.
        model: the run's model.

    Raises:
        UserError: there is no such tokenizer, or the model has none before training.
    """
    if tokenizer == "words":
        return count_words
    from kernelrl.policies.models import load_tokenizer

    if tokenizer == "model" and model.kind == "tiny":
        raise UserError(
            "curate.tokenizer=model: model=tiny makes its tokenizer from the data set; use curate.tokenizer=words"
        )
    loaded = load_tokenizer(model if tokenizer == "model" else DictConfig({"kind": "hf", "name": tokenizer}))
    return lambda text: len(loaded(text, add_special_tokens=False)["input_ids"])


def count_words(text: str) -> int:
    """Words and punctuation marks."""
    return sum(1 for _ in _WORD.finditer(text))
