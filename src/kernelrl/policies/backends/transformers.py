"""Sampling with transformers, in this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from transformers import GenerationConfig

from kernelrl.policies.backends.base import Backend
from kernelrl.policies.backends.context import Context, context_length
from kernelrl.policies.backends.settings import TransformersSettings
from kernelrl.policies.models import end_ids, load_policy
from kernelrl.policies.prompts import Message, Reasoning, render
from kernelrl.policies.protocol import Answer, Finish
from kernelrl.policies.settings import DEFAULT, ModelSettings


class Transformers(Backend):
    """A model or an adapter, loaded onto the first GPU, or onto the CPU where there is none.

    Equal calls give equal answers: each batch is drawn with the seeds of all its conversations as one.

    Args:
        settings: what is sampled, and how.
        model: how it is loaded and asked.

    Raises:
        UserError: there is no such model.
    """

    def __init__(self, settings: TransformersSettings, model: ModelSettings = DEFAULT):
        self._settings = settings
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._model: Any
        self._model, self._tokenizer = load_policy(settings.model, settings=model, revision=settings.revision)
        self._model.to(self._device).eval()
        self._tokenizer.padding_side = "left"
        self._reasoning = Reasoning.of(self._tokenizer, model)
        self._template = model.chat_template_kwargs
        length = context_length(self._model.config)
        self._context = Context(self._tokenizer, length, settings.max_new_tokens, self._template)
        self._lock = threading.Lock()  # the seed is the process's
        self._ends = end_ids(self._model, self._tokenizer)
        sampling = {"do_sample": True, "temperature": settings.temperature, "top_p": settings.top_p, "top_k": 0}
        self._generation = GenerationConfig(  # type: ignore[no-untyped-call]
            **(sampling if settings.temperature > 0 else {"do_sample": False}),
            repetition_penalty=1.0,  # what is not said here would be the model's own
            max_new_tokens=settings.max_new_tokens,
            eos_token_id=sorted(self._ends) or None,
            pad_token_id=self._tokenizer.pad_token_id,
            return_dict_in_generate=True,
            output_scores=settings.log_probabilities,
        )

    def stream(self, conversations: Sequence[list[Message]], seeds: Sequence[int]) -> Iterator[tuple[int, Answer]]:
        size = self._settings.batch_size
        for start in range(0, len(conversations), size):
            batch = slice(start, start + size)
            yield from enumerate(self._generate(conversations[batch], seeds[batch]), start)

    def too_long(self, messages: list[Message]) -> str | None:
        return self._context.too_long(messages)

    def close(self) -> None:
        del self._model
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    @torch.inference_mode()
    def _generate(self, conversations: Sequence[list[Message]], seeds: Sequence[int]) -> list[Answer]:
        prompts = [render(self._tokenizer, messages, self._template) for messages in conversations]
        inputs = self._tokenizer(prompts, add_special_tokens=False, padding=True, return_tensors="pt").to(self._device)
        with self._lock:
            torch.manual_seed(hash(tuple(seeds)))
            drawn = self._model.generate(
                input_ids=inputs["input_ids"],
                attention_mask=inputs["attention_mask"],
                generation_config=self._generation,
            )
        completions_BL = drawn.sequences[:, inputs["input_ids"].shape[1] :]
        logps_BL = None
        if self._settings.log_probabilities:
            logps_BL = self._model.compute_transition_scores(drawn.sequences, drawn.scores, normalize_logits=True)
        texts = self._tokenizer.batch_decode(completions_BL, skip_special_tokens=True)
        answers = []
        for row, (text, mask, tokens) in enumerate(
            zip(texts, inputs["attention_mask"], completions_BL.tolist(), strict=True)
        ):
            length, finish = self._end(tokens)
            answers.append(
                Answer(
                    text=self._reasoning.restore(text),
                    finish=finish,
                    token_ids=tuple(tokens[:length]),
                    log_probabilities=None if logps_BL is None else tuple(logps_BL[row, :length].tolist()),
                    prompt_tokens=int(mask.sum()),
                    completion_tokens=length,
                )
            )
        return answers

    def _end(self, tokens: Sequence[int]) -> tuple[int, Finish]:
        """Number of tokens up to the one that ends the completion, and whether there is one."""
        for index, token in enumerate(tokens):
            if token in self._ends:
                return index + 1, "stop"
        return len(tokens), "length"
