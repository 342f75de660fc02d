"""The sides of a model that every stage reads alike: the node `model` of the config, but for what kind it is."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class Marks(BaseModel):
    """How a model delimits its reasoning."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    start: str = "<think>"
    end: str = "</think>"


class ModelSettings(BaseModel):
    """How a policy is stored, loaded and asked, from the base model to its evaluation."""

    model_config = ConfigDict(frozen=True, extra="ignore", protected_namespaces=())

    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """In which a policy is stored, sampled and served; `auto`: as the base model is stored. Trained in float32."""
    attn_implementation: str | None = None
    """E.g. `sdpa`, `flash_attention_2`, or a kernel on the hub; None: transformers' choice."""
    quantization: Literal["4bit", "8bit"] | None = None
    """Of the weights that an adapter leaves alone, while it is trained (QLoRA, arXiv 2305.14314); None: as stored."""
    trust_remote_code: bool = False
    """Whether code that comes with the model may run."""
    chat_template_kwargs: dict[str, Any] = {}
    """Keyword arguments of the chat template, e.g. `{enable_thinking: false}`."""
    reasoning: Marks = Marks()

    @property
    def deciding(self) -> dict[str, Any] | None:
        """What differs from the defaults, for the settings of a stage; None: nothing."""
        return self.model_dump(exclude_defaults=True) or None

    def loading(self) -> dict[str, Any]:
        """Keyword arguments of `from_pretrained`, for a model as it is sampled or served."""
        options: dict[str, Any] = {"trust_remote_code": True} if self.trust_remote_code else {}
        return options | ({"attn_implementation": self.attn_implementation} if self.attn_implementation else {})


DEFAULT = ModelSettings()
