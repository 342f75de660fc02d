"""The nodes of the config that say how a policy is sampled (`configs/policy`)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from kernelrl.policies.settings import Marks

PositiveInt = Annotated[int, Field(ge=1)]
Temperature = Annotated[float, Field(ge=0)]
"""0 takes the most likely token each time."""
TopP = Annotated[float, Field(gt=0, le=1)]
"""Nucleus sampling's share of probability; there is no top-k cut-off."""


class Settings(BaseModel):
    """What all backends have in common."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    backend: str
    model: str
    """Folder of a model or of an adapter, or a hub id; of an endpoint, the name that the server knows it by."""
    log_probabilities: bool
    cache_dir: Path | None
    """Of answers; None: none are kept."""

    @property
    def identity(self) -> dict[str, Any]:
        """What decides the answers, for a cache or a stage's settings."""
        return self.model_dump(mode="json", exclude=NOT_DECIDING)


NOT_DECIDING = set(
    "cache_dir base_url api_key_env concurrency requests_per_minute retries timeout_s prices batch "
    "log_probabilities copies".split()
)


class LocalSettings(Settings):
    """Of a model that is loaded into this process."""

    revision: str | None
    """Branch, tag or commit of a hub id."""
    temperature: Temperature
    top_p: TopP
    max_new_tokens: PositiveInt
    """Length at which a completion is cut off."""


class TransformersSettings(LocalSettings):
    """`configs/policy/transformers.yaml`."""

    backend: Literal["transformers"]
    batch_size: PositiveInt
    """Completions that are generated at a time."""


class VllmSettings(LocalSettings):
    """`configs/policy/vllm.yaml`."""

    backend: Literal["vllm"]
    engine: dict[str, Any]
    """Further arguments of `vllm.LLM`."""
    copies: PositiveInt | None
    """Of the model on the GPUs of this node, each on as many as `engine.tensor_parallel_size`; None: all that fit."""


class Prices(BaseModel):
    """Per million tokens; None: not known."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt: float | None
    completion: float | None

    def cost(self, prompt_tokens: int | None, completion_tokens: int | None) -> float | None:
        """Of one answer; None: a price or a count is not known."""
        if None in (self.prompt, self.completion, prompt_tokens, completion_tokens):
            return None
        assert self.prompt is not None and self.completion is not None
        assert prompt_tokens is not None and completion_tokens is not None
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1e6


class ServedMarks(Marks):
    """How a served model delimits its reasoning, where the server leaves it in the text."""

    opening: str
    """What the chat template has written of it already."""


class BatchSettings(BaseModel):
    """Of questions that are asked through `/v1/batches`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    questions: PositiveInt = 1000
    """In one batch, about."""
    poll_s: Annotated[float, Field(gt=0)] = 60.0
    """Between two looks at whether it is answered (in seconds)."""


class EndpointSettings(Settings):
    """`configs/policy/endpoint.yaml`."""

    backend: Literal["endpoint"]
    base_url: str
    api_key_env: str | None
    """Name of the environment variable that holds the key; None: the server asks for none."""
    temperature: Temperature | None
    top_p: TopP | None
    max_new_tokens: PositiveInt | None
    """None, of these three: not sent."""
    request: dict[str, Any]
    """Sent with every question."""
    concurrency: PositiveInt
    requests_per_minute: Annotated[float, Field(gt=0)] | None
    retries: Annotated[int, Field(ge=0)]
    timeout_s: Annotated[float, Field(gt=0)]
    """For one answer (in seconds)."""
    prices: Prices
    batch: BatchSettings | None = None
    """None: each question by itself."""
    reasoning: ServedMarks
