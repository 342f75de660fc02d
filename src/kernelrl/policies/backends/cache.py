"""A policy whose answers are kept on disk, so that nothing is paid for twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import diskcache

from kernelrl.policies.backends.base import Backend
from kernelrl.policies.prompts import Message
from kernelrl.policies.protocol import Answer


class Cached(Backend):
    """Keeps every answer as soon as it is there. Failures are not kept: they are asked for again.

    Args:
        policy: that is asked for what is not known; closed with this one.
        folder: of the cache; several processes may share it.
        identity: what decides the policy's answers, but for the conversation and the seed.
    """

    def __init__(self, policy: Backend, folder: Path, identity: dict[str, Any]):
        self._policy = policy
        self._identity = identity
        self._cache = diskcache.Cache(folder.expanduser(), eviction_policy="none")  # what was paid for is never dropped

    def stream(self, conversations: Sequence[list[Message]], seeds: Sequence[int]) -> Iterator[tuple[int, Answer]]:
        keys = [self._key(messages, seed) for messages, seed in zip(conversations, seeds, strict=True)]
        missing = []
        for index, key in enumerate(keys):
            known = self._cache.get(key)
            if known is None:
                missing.append(index)
            else:
                yield index, replace(Answer(**known), cost=0.0, cached=True)
        if missing:
            asked = self._policy.stream(
                [conversations[index] for index in missing], [seeds[index] for index in missing]
            )
            for number, answer in asked:
                if answer.failure is None:
                    self._cache[keys[missing[number]]] = asdict(answer)
                yield missing[number], answer

    def too_long(self, messages: list[Message]) -> str | None:
        return self._policy.too_long(messages)

    def close(self) -> None:
        self._policy.close()
        self._cache.close()

    def _key(self, messages: list[Message], seed: int) -> str:
        text = json.dumps([self._identity, messages, seed], sort_keys=True)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
