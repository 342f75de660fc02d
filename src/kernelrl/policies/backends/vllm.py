"""Sampling with vLLM: in this process, or by copies of the model on the GPUs of this node.

Not covered: experts shared out over copies, and several nodes. Start servers there and sample them through an endpoint.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig

from kernelrl.errors import UserError
from kernelrl.policies.backends.base import Backend
from kernelrl.policies.backends.context import Context, context_length
from kernelrl.policies.backends.copies import Copies
from kernelrl.policies.backends.settings import VllmSettings
from kernelrl.policies.models import find_policy, is_adapter, make_whole, open_tokenizer
from kernelrl.policies.prompts import Message, Reasoning
from kernelrl.policies.protocol import Answer
from kernelrl.policies.settings import DEFAULT, ModelSettings


def open_vllm(settings: VllmSettings, model: ModelSettings = DEFAULT, name: str = "policy") -> Backend:
    """A policy in vLLM; an adapter is merged into its base first, in a temporary folder.

    Args:
        settings: what is sampled, and how.
        model: how it is loaded and asked.
        name: of the node of the config, for messages.

    Raises:
        UserError: vLLM is not installed, there is no such model, or too few GPUs for the copies.
    """
    folder = find_policy(settings.model, settings.revision)
    if find_spec("vllm") is None:
        raise UserError(
            f"{name}.backend=vllm: not installed; pip install 'kernelrl[vllm]' on a machine with a GPU, "
            f"or choose {name}.backend=transformers"
        )
    environments = share_gpus(settings, visible_gpus(), name)
    merged = tempfile.TemporaryDirectory(prefix="kernelrl-merged-")
    if is_adapter(folder):
        make_whole(folder, Path(merged.name) / "policy", model)
        folder = Path(merged.name) / "policy"
    whole = settings.model_copy(update={"model": str(folder), "revision": None})
    opened = Vllm(whole, model) if len(environments) == 1 else Copies(partial(Vllm, whole, model), environments)
    config = AutoConfig.from_pretrained(folder, trust_remote_code=model.trust_remote_code)
    given = settings.engine.get("max_model_len") or -1  # -1: vLLM takes what it has memory for
    length = given if given > 0 else context_length(config)
    tokenizer = open_tokenizer(folder, model)
    return _Merged(opened, merged, Context(tokenizer, length, settings.max_new_tokens, model.chat_template_kwargs))


def visible_gpus() -> list[str]:
    """The GPUs that this process may use, as `CUDA_VISIBLE_DEVICES` names them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return list(filter(None, named.split(","))) if named is not None else [*map(str, range(torch.cuda.device_count()))]


def share_gpus(settings: VllmSettings, gpus: Sequence[str], name: str) -> list[dict[str, str]]:
    """What differs in the environments of the copies: the GPUs that each of them sees.

    Raises:
        UserError: there are too few.
    """
    size = settings.engine.get("tensor_parallel_size", 1) * settings.engine.get("pipeline_parallel_size", 1)
    num_copies = settings.copies or max(1, len(gpus) // size)
    if num_copies > 1 and num_copies * size > len(gpus):
        raise UserError(f"{name}.copies={num_copies}: they need {num_copies} x {size} GPUs, and there are {len(gpus)}")
    shares = [gpus[size * number : size * (number + 1)] for number in range(num_copies)]
    return [{"CUDA_VISIBLE_DEVICES": ",".join(share)} for share in shares]


class _Merged(Backend):
    """A policy with its context, and the folder that is gone with it."""

    def __init__(self, policy: Backend, folder: tempfile.TemporaryDirectory[str], context: Context):
        self._policy, self._folder, self._context = policy, folder, context

    def stream(self, conversations: Sequence[list[Message]], seeds: Sequence[int]) -> Iterator[tuple[int, Answer]]:
        return self._policy.stream(conversations, seeds)

    def too_long(self, messages: list[Message]) -> str | None:
        return self._context.too_long(messages)

    def close(self) -> None:
        self._policy.close()
        self._folder.cleanup()


class Vllm(Backend):
    """A whole model in vLLM's engine, in this process."""

    def __init__(self, settings: VllmSettings, model: ModelSettings = DEFAULT):
        import vllm

        options: dict[str, Any] = {"dtype": model.dtype, "trust_remote_code": model.trust_remote_code}
        if settings.log_probabilities:
            options["logprobs_mode"] = "processed_logprobs"  # with temperature and cut-offs
        self._engine = vllm.LLM(model=settings.model, **(options | settings.engine))
        self._parameters = vllm.SamplingParams
        self._sampling: dict[str, Any] = {
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "max_tokens": settings.max_new_tokens,
            "logprobs": 0 if settings.log_probabilities else None,  # 0: of the token that was drawn
        }
        self._template = model.chat_template_kwargs
        self._tokenizer = open_tokenizer(settings.model, model)
        self._reasoning = Reasoning.of(self._tokenizer, model)
        self._lock = threading.Lock()

    def stream(self, conversations: Sequence[list[Message]], seeds: Sequence[int]) -> Iterator[tuple[int, Answer]]:
        with self._lock:
            outputs = self._engine.chat(
                [list(messages) for messages in conversations],
                [self._parameters(seed=seed, **self._sampling) for seed in seeds],
                use_tqdm=False,
                chat_template_kwargs=self._template,
            )
        yield from enumerate(map(self._read, outputs))

    def close(self) -> None:
        del self._engine

    def _read(self, output: Any) -> Answer:
        (drawn,) = output.outputs
        tokens = tuple(drawn.token_ids)
        logps = None
        if drawn.logprobs is not None:
            logps = tuple(at[token].logprob for at, token in zip(drawn.logprobs, tokens, strict=True))
        # the engine's own text may leave out the marks of the reasoning
        text = str(self._tokenizer.decode(list(tokens), skip_special_tokens=True))
        return Answer(
            text=self._reasoning.restore(text),
            finish=drawn.finish_reason if drawn.finish_reason in ("stop", "length") else None,
            token_ids=tokens,
            log_probabilities=logps,
            prompt_tokens=len(output.prompt_token_ids),
            completion_tokens=len(tokens),
        )
