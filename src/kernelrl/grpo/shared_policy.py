"""The policy that is being trained, as strategies ask it: TRL's own generation, on all ranks at once.

The main rank alone runs strategies. Whatever it asks is shared out, so that ranks which share the weights generate
equally often and equally much; the others serve until the main rank dismisses them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from trl import GRPOTrainer

from kernelrl.policies.backends.base import TOO_LONG
from kernelrl.policies.backends.context import context_length
from kernelrl.policies.prompts import Message, Reasoning, marks_of, without_marks
from kernelrl.policies.protocol import Answer
from kernelrl.training import ranks

Generated = tuple[list[int], list[float] | None]
"""Ids of a completion, and log-probabilities where the generation knows them."""


def context_of(config: Any, arguments: Any) -> int | None:
    """How many tokens a conversation and its answer may have in training; None: nobody says.

    Args:
        config: of the model.
        arguments: `GRPOConfig` of the trainer, whose vLLM may be told to hold less than the model could. What a server
            was told nobody knows.
    """
    in_process = arguments.use_vllm and arguments.vllm_mode == "colocate"
    given = arguments.vllm_max_model_length if in_process else None
    return min((length for length in (context_length(config), given) if length is not None), default=None)


class SharedPolicy:
    """One for each batch, on every rank."""

    def __init__(self, trainer: GRPOTrainer, reasoning: Reasoning):
        self._trainer = trainer
        self._reasoning = reasoning
        tokenizer: Any = trainer.processing_class
        self._tokenizer = tokenizer
        self.end: int = tokenizer.eos_token_id

    def sample(self, conversations: Sequence[list[Message]], seeds: Sequence[int]) -> list[Answer]:
        """One answer per conversation, on the main rank. The seeds are the trainer's, which its checkpoints keep.

        A conversation that leaves no room for a whole completion is refused.
        """
        prompt_ids = self.tokenize(conversations)
        refusals = [self._too_long(len(ids)) for ids in prompt_ids]
        short = [ids for ids, refusal in zip(prompt_ids, refusals, strict=True) if refusal is None]
        generated = iter((self._generate(short) if short else None) or ())
        return [
            self._answer(len(prompt), *next(generated))
            if refusal is None
            else Answer(failure=TOO_LONG, refused=refusal)
            for prompt, refusal in zip(prompt_ids, refusals, strict=True)
        ]

    def _answer(self, prompt_tokens: int, ids: list[int], log_probabilities: list[float] | None) -> Answer:
        return Answer(
            text=self._reasoning.restore(self._tokenizer.decode(ids, skip_special_tokens=True)),
            finish="stop" if ids[-1] in self._trainer.eos_token_ids else "length",
            token_ids=tuple(ids),
            log_probabilities=None if log_probabilities is None else tuple(log_probabilities),
            prompt_tokens=prompt_tokens,
            completion_tokens=len(ids),
        )

    def serve(self) -> None:
        """Generate what the main rank asks for, until it dismisses this one."""
        while self._generate(None) is not None:
            pass

    def dismiss(self) -> None:
        """Let the other ranks go on."""
        self._generate(None)

    def close(self) -> None:
        """Nothing: the trainer owns the model."""

    def tokenize(self, conversations: Sequence[list[Message]]) -> list[list[int]]:
        """The prompts as the model reads them."""
        ids: list[list[int]]
        marks = marks_of(self._tokenizer)
        messages = [without_marks(conversation, marks) for conversation in conversations]
        ids, _, _ = self._trainer._tokenize_prompts(messages)
        return ids

    def fits(self, messages: list[Message]) -> bool:
        """Whether a whole completion has room behind the conversation, in the model's context."""
        return self._too_long(len(self.tokenize([messages])[0])) is None

    def _too_long(self, num_tokens: int) -> str | None:
        """Why a conversation of so many tokens leaves no room for a whole completion; None: it does."""
        config = self._trainer.accelerator.unwrap_model(self._trainer.model).config
        length = context_of(config, self._trainer.args)
        longest = self._trainer.max_completion_length or 0
        if length is None or num_tokens + longest <= length:
            return None
        return (
            f"the conversation has {num_tokens} tokens, and with grpo.trainer.max_completion_length={longest} for the "
            f"answer that is more than the model's context of {length}"
        )

    def _generate(self, prompt_ids: list[list[int]] | None) -> list[Generated] | None:
        """Completions of the prompts of the main rank, on every rank; None: it has no more."""
        prompts = ranks.from_main(lambda: prompt_ids)
        if not prompts:
            return None
        share = -(-len(prompts) // ranks.num_ranks())
        padded = [*prompts, *[prompts[0]] * (share * ranks.num_ranks() - len(prompts))]
        generate: Any = self._trainer._generate_single_turn
        ids, log_probabilities = generate(padded[share * ranks.rank() :][:share], None, {}, 1)
        mine = list(zip(ids, log_probabilities or [None] * share, strict=True))
        return list(chain(*ranks.gathered([mine])))[: len(prompts)]
