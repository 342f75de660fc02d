"""An OpenAI-compatible endpoint, asked asynchronously from a thread of its own."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import openai
from omegaconf import DictConfig
from openai.types.chat import ChatCompletion

from kernelrl.configs import to_dict
from kernelrl.errors import UserError
from kernelrl.policies.prompts import Message

REASONING_FIELDS = ("reasoning_content", "reasoning")
"""Where servers put the chain of thought: vLLM, SGLang and DeepSeek; newer vLLM and routers."""


@dataclass(frozen=True)
class Answer:
    """What a model wrote, or why it did not."""

    text: str = ""
    reasoning: str = ""
    """What the server gave apart from the text; empty: nothing."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    failure: str | None = None
    """Kind of failure, e.g. `HTTP 500`; None: it answered."""


class Endpoint:
    """Asks at most `concurrency` questions at a time; the client retries with exponential backoff.

    Args:
        cfg: `base_url`, `model`, `api_key_env`, `concurrency`, `retries`, `timeout_s` and `request` (sent with every
            question), as in `configs/teacher/llm.yaml`.
        name: of that node of the config, for messages.

    Raises:
        UserError: the environment variable that the config names for the key is not set.
    """

    def __init__(self, cfg: DictConfig, name: str):
        self.ahead = 4 * cfg.concurrency
        self._cfg = cfg
        self._name = name
        self._request = to_dict(cfg.request)
        self._loop = asyncio.new_event_loop()
        self._slots = asyncio.Semaphore(cfg.concurrency)
        self._client = openai.AsyncOpenAI(
            base_url=cfg.base_url,
            api_key=_read_key(cfg.api_key_env, name),
            max_retries=cfg.retries,
            timeout=cfg.timeout_s,
        )
        self._thread = threading.Thread(target=self._loop.run_forever, name="llm-endpoint", daemon=True)
        self._thread.start()

    def ask(self, messages: list[Message], seeds: Sequence[int]) -> list[Future[Answer]]:
        return [asyncio.run_coroutine_threadsafe(self._complete(messages, seed), self._loop) for seed in seeds]

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _shut(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._client.close()

    async def _complete(self, messages: list[Message], seed: int) -> Answer:
        where = f"{self._name}.base_url={self._cfg.base_url}"
        try:
            async with self._slots:
                completion = await self._client.chat.completions.create(
                    model=self._cfg.model,
                    messages=messages,  # type: ignore[arg-type]
                    seed=seed,
                    **self._request,
                )
        except (openai.AuthenticationError, openai.PermissionDeniedError) as error:  # its text may hold the key
            raise UserError(
                f"{where} refuses the key (HTTP {error.status_code}); set ${self._cfg.api_key_env or '…'} "
                f"and name it in {self._name}.api_key_env"
            ) from None
        except openai.NotFoundError:
            raise UserError(f"{where} does not serve {self._name}.model={self._cfg.model!r} (HTTP 404)") from None
        except openai.APITimeoutError:
            return Answer(failure="timeout")
        except openai.APIConnectionError:
            raise UserError(f"{where} cannot be reached; is the server running?") from None
        except openai.APIStatusError as error:
            return Answer(failure=f"HTTP {error.status_code}")
        except (openai.APIError, ValueError):  # no JSON
            return Answer(failure="malformed answer")
        return _read(completion)


def _read_key(variable: str | None, name: str) -> str:
    if variable is None:
        return "none"  # the client insists on a text; local servers ask for no key
    key = os.environ.get(variable)
    if not key:
        raise UserError(f"{name}.api_key_env={variable}: this environment variable is not set; export the key in it")
    return key


def _read(completion: ChatCompletion | Any) -> Answer:
    """The answer in a response; a server that is only almost compatible may have left out anything."""
    choices = getattr(completion, "choices", None)
    message = getattr(choices[0], "message", None) if choices else None
    text = getattr(message, "content", None)
    extra = getattr(message, "model_extra", None) or {}
    reasoning = next((extra[name] for name in REASONING_FIELDS if isinstance(extra.get(name), str)), "")
    if not isinstance(text, str):
        if not reasoning:
            return Answer(failure="malformed answer")
        text = ""  # it thought until its tokens ran out
    usage = getattr(completion, "usage", None)
    return Answer(text, reasoning, getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None))
