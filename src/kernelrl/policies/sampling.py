"""Sampling completions from a policy with transformers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig

from kernelrl.policies.models import load_policy
from kernelrl.policies.prompts import Message, Reasoning, render
from kernelrl.policies.settings import DEFAULT, ModelSettings


class Sampler:
    """A policy, loaded and ready to write.

    Args:
        folder: of the policy; a model or a PEFT adapter.
        temperature: 0 takes the most likely token each time.
        top_p: nucleus sampling's share of probability; there is no top-k cut-off.
        max_new_tokens: length at which a completion is cut off.
        settings: how the policy is loaded and asked.
    """

    def __init__(
        self,
        folder: str | Path,
        temperature: float,
        top_p: float,
        max_new_tokens: int,
        settings: ModelSettings = DEFAULT,
    ):
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._model: Any
        self._model, self._tokenizer = load_policy(folder, settings=settings)
        self._model.to(self._device).eval()
        self._tokenizer.padding_side = "left"
        self._reasoning = Reasoning.of(self._tokenizer, settings)
        self._template = settings.chat_template_kwargs
        sampling = {"do_sample": True, "temperature": temperature, "top_p": top_p, "top_k": 0}
        self._generation = GenerationConfig(  # type: ignore[no-untyped-call]
            **(sampling if temperature > 0 else {"do_sample": False}),
            max_new_tokens=max_new_tokens,
            pad_token_id=self._tokenizer.pad_token_id,
        )

    @torch.inference_mode()
    def sample(self, conversations: Sequence[list[Message]], seed: int) -> list[str]:
        """One completion per conversation, as `Completion.parse` reads it, generated as one batch.

        Equal arguments give equal completions.
        """
        prompts = [render(self._tokenizer, messages, self._template) for messages in conversations]
        inputs = self._tokenizer(prompts, add_special_tokens=False, padding=True, return_tensors="pt").to(self._device)
        torch.manual_seed(seed)
        tokens_BL = self._model.generate(
            input_ids=inputs["input_ids"],
            attention_mask=inputs["attention_mask"],
            generation_config=self._generation,
        )
        completions_BL = tokens_BL[:, inputs["input_ids"].shape[1] :]
        completions = self._tokenizer.batch_decode(completions_BL, skip_special_tokens=True)
        return [self._reasoning.restore(text) for text in completions]
