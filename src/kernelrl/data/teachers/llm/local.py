"""A local `transformers` model: all samples of a task are generated as one batch, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import cast

from omegaconf import DictConfig
from transformers import AutoTokenizer

from kernelrl.policies.endpoint import Answer
from kernelrl.policies.models import check_policy
from kernelrl.policies.prompts import Message
from kernelrl.policies.sampling import Sampler


class LocalModel:
    """Answers depend on the seeds alone: a batch never holds samples of two tasks.

    Raises:
        UserError: there is no model in the folder `model`.
    """

    ahead = 8

    def __init__(self, cfg: DictConfig):
        request = cfg.request
        folder = check_policy(cfg.model)
        self._sampler = Sampler(folder, request.temperature, request.top_p, request.max_tokens)
        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self._worker = ThreadPoolExecutor(1)

    def ask(self, messages: list[Message], seeds: Sequence[int]) -> list[Future[Answer]]:
        batch = self._worker.submit(self._generate, messages, list(seeds))
        return [_element(batch, index) for index in range(len(seeds))]

    def close(self) -> None:
        self._worker.shutdown(cancel_futures=True)

    def _generate(self, messages: list[Message], seeds: list[int]) -> list[Answer]:
        texts = self._sampler.sample([messages] * len(seeds), seed=seeds[0])
        conversation = cast(list[dict[str, str]], messages)
        prompt = self._tokenizer.apply_chat_template(conversation, add_generation_prompt=True, tokenize=False)
        return [Answer(text, "", self._count(str(prompt)), self._count(text)) for text in texts]

    def _count(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False))


def _element(batch: Future[list[Answer]], index: int) -> Future[Answer]:
    """The future of one element of a future list."""
    future: Future[Answer] = Future()

    def hand_on(done: Future[list[Answer]]) -> None:
        if done.cancelled():
            future.cancel()
        elif error := done.exception():
            future.set_exception(error)
        else:
            future.set_result(done.result()[index])

    batch.add_done_callback(hand_on)
    return future
