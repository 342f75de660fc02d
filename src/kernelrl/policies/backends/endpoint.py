"""An OpenAI-compatible endpoint, asked asynchronously from a thread of its own."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, as_completed
from typing import Any

import openai
from openai.types.chat import ChatCompletion

from kernelrl.errors import UserError
from kernelrl.policies.backends.base import Backend
from kernelrl.policies.backends.servers import own_words
from kernelrl.policies.backends.settings import EndpointSettings
from kernelrl.policies.prompts import Message, Reasoning
from kernelrl.policies.protocol import Answer

REASONING_FIELDS = ("reasoning_content", "reasoning")
"""Where servers put the chain of thought: vLLM, SGLang and DeepSeek; newer vLLM and routers."""
REFUSALS = (400, 413, 422)
"""Statuses that say that the question itself cannot be answered, e.g. because it is longer than the context."""
MAX_QUOTED = 500
"""Characters of what a server says that are passed on."""


class Endpoint(Backend):
    """Asks at most `concurrency` questions at a time; the client tries again with growing pauses of random length.

    Args:
        settings: which model of which server is sampled, and how.
        name: of that node of the config, for messages.

    Raises:
        UserError: the environment variable that the config names for the key is not set.
    """

    def __init__(self, settings: EndpointSettings, name: str = "policy"):
        self._settings = settings
        self._name = name
        self._reasoning = Reasoning(settings.reasoning.start, settings.reasoning.end, settings.reasoning.opening)
        self._request = _request(settings)
        self._known: asyncio.Task[None] | None = None
        self._loop = asyncio.new_event_loop()
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._next_start = 0.0
        self._open = True
        self._lock = threading.Lock()
        """Held while questions are handed to the loop, so that all of them come before its end, which cancels them."""
        self._client = openai.AsyncOpenAI(
            base_url=settings.base_url,
            api_key=_read_key(settings.api_key_env, name),
            max_retries=settings.retries,
            timeout=settings.timeout_s,
        )
        self._thread = threading.Thread(target=self._loop.run_forever, name="endpoint", daemon=True)
        self._thread.start()

    def stream(self, conversations: Sequence[list[Message]], seeds: Sequence[int]) -> Iterator[tuple[int, Answer]]:
        with self._lock:
            if not self._open:
                raise CancelledError
            asked = {
                asyncio.run_coroutine_threadsafe(self._ask(messages, seed), self._loop): index
                for index, (messages, seed) in enumerate(zip(conversations, seeds, strict=True))
            }
        waiting = set(asked)
        try:
            for future in as_completed(asked):
                answer = future.result()
                waiting.remove(future)
                yield asked[future], answer
        except UserError:
            for future in waiting:  # what came at the same time is paid for
                if future.done() and future.exception() is None:
                    yield asked[future], future.result()
            raise
        finally:
            for future in asked:
                future.cancel()

    def close(self) -> None:
        with self._lock:
            self._open = False
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

    async def _ask(self, messages: list[Message], seed: int) -> Answer:
        try:
            async with self._slots:
                await self._know()
                await self._turn()
                completion = await self._client.chat.completions.create(
                    messages=messages,  # type: ignore[arg-type]
                    seed=seed,
                    **self._request,
                )
        except openai.NotFoundError:
            raise UserError(
                f"{self._where} does not serve {self._name}.model={self._settings.model!r} (HTTP 404)"
            ) from None
        except (openai.OpenAIError, ValueError) as error:  # a ValueError: no JSON
            return self._failure(error)
        return self._read(completion)

    async def _know(self) -> None:
        """Find out what the server has to be told with every question; what the config says is stronger.

        Once, when the server is there: no question goes to it before.

        Raises:
            openai.APIError: it is not there. The next question tries again.
        """
        if self._known is None:
            self._known = asyncio.create_task(self._complete())
        await asyncio.shield(self._known)

    async def _complete(self) -> None:
        try:
            own = await own_words(self._client, self._settings, self._where)
        except openai.APIError:
            self._known = None
            raise
        if extra := own | self._request.get("extra_body", {}):
            self._request["extra_body"] = extra

    @property
    def _where(self) -> str:
        return f"{self._name}.base_url={self._settings.base_url}"

    def _failure(self, error: Exception) -> Answer:
        """What became of a question that has no answer.

        Raises:
            UserError: there can be none to any question.
        """
        match error:
            case openai.AuthenticationError() | openai.PermissionDeniedError():  # its text may hold the key
                raise UserError(
                    f"{self._where} refuses the key (HTTP {error.status_code}); set "
                    f"${self._settings.api_key_env or '…'} and name it in {self._name}.api_key_env"
                ) from None
            case openai.APITimeoutError():
                return Answer(failure="timeout")
            case openai.APIConnectionError():
                raise UserError(f"{self._where} cannot be reached; is the server running?") from None
            case openai.APIStatusError():
                return failed(error.status_code, error.message)
        return Answer(failure="malformed answer")

    async def _turn(self) -> None:
        """Wait until the next question may be asked."""
        if self._settings.requests_per_minute is None:
            return
        start = max(time.monotonic(), self._next_start)
        self._next_start = start + 60 / self._settings.requests_per_minute
        await asyncio.sleep(start - time.monotonic())

    def _read(self, completion: ChatCompletion | Any) -> Answer:
        """The answer in a response; a server that is only almost compatible may have left out anything."""
        choices = getattr(completion, "choices", None)
        choice = choices[0] if choices else None
        message = getattr(choice, "message", None)
        text = getattr(message, "content", None)
        extra = getattr(message, "model_extra", None) or {}
        reasoning = next((extra[name] for name in REASONING_FIELDS if isinstance(extra.get(name), str)), "")
        if isinstance(text, str):
            text = self._reasoning.restore(text, reasoning)
        elif reasoning:
            text = f"<think>\n{reasoning}"  # it thought until its tokens ran out
        else:
            return Answer(failure="malformed answer")
        usage = getattr(completion, "usage", None)
        prompt_tokens, completion_tokens = (getattr(usage, f"{name}_tokens", None) for name in ("prompt", "completion"))
        finish = getattr(choice, "finish_reason", None)
        token_ids, log_probabilities = self._tokens(choice) if self._settings.log_probabilities else (None, None)
        return Answer(
            text=text,
            finish=finish if finish in ("stop", "length") else None,
            token_ids=token_ids,
            log_probabilities=log_probabilities,
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            cost=self._settings.prices.cost(prompt_tokens, completion_tokens),
        )

    def _tokens(self, choice: Any) -> tuple[tuple[int, ...] | None, tuple[float, ...] | None]:
        """Ids of a completion's tokens (vLLM has them where it is sent `return_token_ids`), and their logarithms."""
        ids = (getattr(choice, "model_extra", None) or {}).get("token_ids")
        at = getattr(getattr(choice, "logprobs", None), "content", None)
        unchanged = self._settings.temperature in (None, 1) and self._settings.top_p in (None, 1)
        # servers say those of the model's own distribution, which is sampled from only where nothing changes it
        logps = tuple(float(each.logprob) for each in at) if at and unchanged else None
        return None if ids is None else tuple(ids), logps


def failed(status: int, said: str) -> Answer:
    """What became of a question to which the server gave this status, and what it said."""
    refused = f"HTTP {status}, the server refuses the question: {said[:MAX_QUOTED]}" if status in REFUSALS else None
    return Answer(failure=f"HTTP {status}", refused=refused)


def _request(settings: EndpointSettings) -> dict[str, Any]:
    """What is sent with every question, beside messages and seed."""
    request: dict[str, Any] = {"model": settings.model}
    named = {"temperature": settings.temperature, "top_p": settings.top_p, "max_tokens": settings.max_new_tokens}
    request |= {name: value for name, value in named.items() if value is not None}
    if settings.log_probabilities:
        request["logprobs"] = True
    return request | settings.request


def _read_key(variable: str | None, name: str) -> str:
    if variable is None:
        return "none"  # the client insists on a text; local servers ask for no key
    key = os.environ.get(variable)
    if not key:
        raise UserError(f"{name}.api_key_env={variable}: this environment variable is not set; export the key in it")
    return key
