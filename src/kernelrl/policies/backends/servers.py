"""What servers add to the sampling of their own accord, and how they are told not to.

They begin with what the model's `generation_config.json` says: Qwen's cut off below the 20th token. And they leave out
special tokens, which some models mark their reasoning with.
"""

from __future__ import annotations

import json
import logging
from typing import Any

import openai

from kernelrl.policies.backends.settings import EndpointSettings

ASKING_S = 10.0
"""For a server that is there to describe itself (in seconds)."""
NOT_READY = (429, 502, 503, 504)
"""Statuses that say nothing about the server: it is starting or busy, or a proxy stands before it."""
WITHOUT_CUTS = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "skip_special_tokens": False}

log = logging.getLogger(__name__)


async def own_words(client: openai.AsyncOpenAI, settings: EndpointSettings, where: str) -> dict[str, Any]:
    """What the server is to be sent beside OpenAI's own fields, so that it samples as the settings say.

    Of a server that cannot be told, a warning says so.

    Args:
        where: the server, for that warning.

    Raises:
        openai.APIError: the server is not there yet, after as many tries as the client makes.
    """
    kind = await _kind(client)
    if kind in ("vllm", "sglang"):
        return WITHOUT_CUTS
    if kind == "transformers":
        return {"generation_config": json.dumps(_generation(settings))}
    log.warning(
        f"{where}: not vLLM, SGLang or transformers; what it cuts off beside temperature and top_p (top_k, min_p, a "
        "penalty) is not known; tell it by `request` (docs/policies.md)"
    )
    return {}


def _generation(settings: EndpointSettings) -> dict[str, Any]:
    """`transformers serve` takes the most likely token, whatever the temperature, unless it is told to draw."""
    if settings.temperature == 0:
        return {"do_sample": False, "repetition_penalty": 1.0}
    return {"do_sample": True, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}


async def _kind(client: openai.AsyncOpenAI) -> str | None:
    """`vllm`, `sglang`, `transformers`, or None: another one, or it does not say."""
    if await _loads_models(client):
        return "transformers"
    owners = await _owners(client)
    for kind in ("vllm", "sglang"):
        if kind in owners:
            return kind
    return "transformers" if await _loads_models(client) else None  # it may not have been there the first time


async def _loads_models(client: openai.AsyncOpenAI) -> bool:
    """Whether the server describes itself, and as one that loads models when it is told to."""
    try:
        asking = client.with_options(max_retries=1, timeout=ASKING_S)
        paths = (await _read(asking, str(client.base_url.join("/openapi.json")))).get("paths")
    except openai.APIError:
        return False
    return isinstance(paths, dict) and "/load_model" in paths


async def _owners(client: openai.AsyncOpenAI) -> list[Any]:
    """Who owns the server's models, as far as it says so."""
    try:
        models = (await _read(client, "models")).get("data")
    except openai.APIError as error:
        if isinstance(error, openai.APIConnectionError) or getattr(error, "status_code", None) in NOT_READY:
            raise
        return []
    return [model.get("owned_by") for model in models if isinstance(model, dict)] if isinstance(models, list) else []


async def _read(client: openai.AsyncOpenAI, path: str) -> dict[str, Any]:
    """The JSON object that is there; empty where it is something else."""
    try:
        found = await client.get(path, cast_to=object)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
