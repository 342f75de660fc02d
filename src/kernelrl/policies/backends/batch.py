"""An OpenAI-compatible endpoint, asked in batches (`/v1/batches`): cheaper where a server has them, and hours later.

All questions of a call go up as one file; its answers come down as another. What is under way is written down beside
the cache of answers, so that a run that was killed waits for the batch that it has paid for instead of asking again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import openai
from openai.types import Batch as Started
from openai.types.chat import ChatCompletion

from kernelrl.errors import UserError
from kernelrl.policies.backends.endpoint import Endpoint, failed
from kernelrl.policies.backends.settings import BatchSettings, EndpointSettings
from kernelrl.policies.prompts import Message
from kernelrl.policies.protocol import Answer
from kernelrl.records import write_json

URL: Final = "/v1/chat/completions"
ENDED = ("completed", "failed", "expired", "cancelled")

log = logging.getLogger(__name__)


class Batch(Endpoint):
    """Asks everything at once, and looks every `poll_s` seconds whether it is answered.

    Raises:
        UserError: there is no cache of answers; or as `Endpoint`.
    """

    def __init__(self, settings: EndpointSettings, batch: BatchSettings, name: str = "policy"):
        if settings.cache_dir is None:
            raise UserError(f"{name}.batch needs {name}.cache_dir: batches that are paid for are written down there")
        super().__init__(settings, name)
        self._batch = batch
        self._folder: Path = settings.cache_dir.expanduser() / "batches"

    def stream(self, conversations: Sequence[list[Message]], seeds: Sequence[int]) -> Iterator[tuple[int, Answer]]:
        lines = [self._line(index, messages, seeds[index]) for index, messages in enumerate(conversations)]
        text = "".join(lines).encode()
        note = self._folder / f"{hashlib.sha256(text).hexdigest()}.json"
        asked = asyncio.run_coroutine_threadsafe(self._ask_all(text, len(lines), note), self._loop)
        answers, ended = asked.result()
        yield from answers.items()
        if ended:
            note.unlink(missing_ok=True)  # whoever reads the answers has kept them; what failed is another batch

    def _line(self, index: int, messages: list[Message], seed: int) -> str:
        body: dict[str, Any] = {**self._request, "messages": messages, "seed": seed}
        body |= body.pop("extra_body", {})
        return json.dumps({"custom_id": str(index), "method": "POST", "url": URL, "body": body}) + "\n"

    async def _ask_all(self, text: bytes, number: int, note: Path) -> tuple[dict[int, Answer], bool]:
        """Answers by the number of the question, a failure for each that has none; and whether the batch has ended."""
        try:
            started = await self._start(text, number, note)
            while started.status not in ENDED:
                await asyncio.sleep(self._batch.poll_s)
                started = await self._client.batches.retrieve(started.id)
            counts = started.request_counts
            log.info("batch %s: %s, %s", started.id, started.status, counts and counts.to_dict())
            answers = dict.fromkeys(range(number), Answer(failure=f"batch {started.status}"))
            for file in (started.error_file_id, started.output_file_id):
                if file is not None:
                    answers |= self._read_lines((await self._client.files.content(file)).text)
            return answers, True
        except openai.NotFoundError:
            raise UserError(f"{self._where} has no batches (HTTP 404); set {self._name}.batch=null") from None
        except openai.OpenAIError as error:
            return dict.fromkeys(range(number), self._failure(error)), False

    async def _start(self, text: bytes, number: int, note: Path) -> Started:
        """The batch of these questions: one that a killed run has left, or a new one."""
        if note.exists():
            return await self._client.batches.retrieve(json.loads(note.read_text())["id"])
        file = await self._client.files.create(file=(f"{note.stem}.jsonl", text), purpose="batch")
        started = await self._client.batches.create(input_file_id=file.id, endpoint=URL, completion_window="24h")
        write_json(note, {"id": started.id, "questions": number})
        log.info("batch %s: %d questions; %s holds its id", started.id, number, note)
        return started

    def _read_lines(self, text: str) -> dict[int, Answer]:
        answers = {}
        for line in filter(str.strip, text.splitlines()):
            found = json.loads(line)
            response = found.get("response") or {}
            status = response.get("status_code")
            if status == 200:
                answer = self._read(ChatCompletion.construct(**response["body"]))
            elif status:
                answer = failed(status, json.dumps(response.get("body")))
            else:
                answer = Answer(failure=(found.get("error") or {}).get("code", "batch"))
            answers[int(found["custom_id"])] = answer
        return answers
