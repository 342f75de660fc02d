"""How much memory a training takes on each device, found out from the model's config without its weights.

Weights, gradients and the optimizer's state are counted on a model without data. Activations are those of a real step
(forward, TRL's loss, backward) on tensors without data, of one layer and of two: what a further layer takes is their
difference. Not covered: what the allocator loses to fragments, and the context of CUDA.
"""

from __future__ import annotations

import json
import warnings
import weakref
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import torch
import yaml
from omegaconf import DictConfig, OmegaConf
from peft import get_peft_model
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig
from trl.trainer.utils import add_fused_lm_head

from kernelrl.configs import to_dict
from kernelrl.policies import models

Sharding = Literal["none", "zero2", "zero3", "fsdp2"]
BUCKET = 5 * 10**8
"""Elements of DeepSpeed's buckets: two of gradients that are reduced meanwhile, and of gathered weights."""
QUANTIZED_BYTES = {"4bit": 4.127 / 8, "8bit": 1.0}
"""Bytes of a quantized weight, constants included (QLoRA, arXiv 2305.14314, section 3)."""


@dataclass(frozen=True)
class Setup:
    """What a step's memory depends on, per device."""

    config: str
    """The model's config, as JSON."""
    rows: int
    """Sequences of a micro-batch."""
    tokens: int
    """Of each sequence, prompt and completion."""
    adapter: str | None
    """What PEFT is asked for, as JSON."""
    stored: torch.dtype
    """In which the weights are stored."""
    bf16: bool
    checkpointing: bool
    quantization: str | None
    sharding: Sharding
    offload: bool
    """Whether the optimizer's state lies in the host's memory."""
    devices: int
    accumulation: int = 1
    """Micro-batches of a step."""
    reference: bool = False
    """Whether there is a second whole model, for a KL term."""


@dataclass(frozen=True)
class Memory:
    """What a training step holds at its peak, on one device (in bytes)."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    """Beside the gradients, which take the place of those that are done with where a step has one micro-batch."""
    buffers: float
    """Of communication: gathered weights and reduced gradients."""
    host: float
    """On the host, for each device."""

    @property
    def total(self) -> float:
        """On the device."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.buffers


def read_config(cfg: DictConfig) -> PretrainedConfig:
    """The config of the model that the node `model` names; weights are not looked for.

    Raises:
        UserError: it is neither here nor one of those that recipes name, and the hub does not answer.
    """
    if cfg.kind == "tiny":
        architecture = to_dict(cfg.architecture) | {"vocab_size": cfg.bpe_tokens + cfg.line_tokens, "dtype": "float32"}
        return AutoConfig.for_model("qwen3", **architecture)
    known = yaml.safe_load((files("kernelrl.policies") / "architectures.yaml").read_text())
    if cfg.kind == "hf" and cfg.name in known and not Path(cfg.name).exists():
        return AutoConfig.for_model(**known[cfg.name])
    models.check_base(cfg)
    return models.base_config(cfg)


def peak(setup: Setup) -> Memory:
    """The memory of a training step at its peak."""
    num_trained, frozen_bytes, num_gathered = _count(replace(setup, rows=1, tokens=1))
    share = setup.devices if setup.sharding != "none" else 1
    weight_share = share if setup.sharding in ("zero3", "fsdp2") else 1
    deepspeed = setup.sharding in ("zero2", "zero3")
    trained_bytes = 2 if deepspeed and setup.bf16 else 4
    moments = 8 + (4 if deepspeed else 0)  # float32, and its own float32 weights
    optimizer = moments * num_trained / share
    gradients = trained_bytes * num_trained / share
    buffers = 0.0
    if deepspeed:
        buffers = trained_bytes * min(2 * BUCKET, 2 * num_trained)
    elif setup.sharding == "none" and setup.devices > 1:
        buffers = 4 * num_trained  # DDP's buckets
    if weight_share > 1:
        buffers += 2 * num_gathered
    activations = _activations(replace(setup, devices=1, accumulation=1, offload=False, reference=False))
    if setup.devices == setup.accumulation == 1:
        activations = max(activations - gradients, 0)
    reference = (4 * num_trained + frozen_bytes) / weight_share if setup.reference else 0
    return Memory(
        weights=(trained_bytes * num_trained + frozen_bytes) / weight_share + reference,
        gradients=gradients,
        optimizer=0 if setup.offload else optimizer,
        activations=activations,
        buffers=buffers,
        host=optimizer if setup.offload else 0,
    )


def kv_bytes(config: PretrainedConfig, bytes_each: int) -> int:
    """Of the keys and values of one token in all layers."""
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return int(2 * config.num_hidden_layers * heads * width * bytes_each)


def num_parameters(config: PretrainedConfig) -> int:
    """Of a model with that config."""
    return sum(parameter.numel() for parameter in _on_meta(config, torch.float32).parameters())


@cache
def _count(setup: Setup) -> tuple[int, float, int]:
    """Number of weights that are trained, bytes of the others, and the number that is gathered at a time."""
    model = _make(setup, None)
    trained, frozen = 0, 0.0
    linear = {id(it.weight) for it in model.modules() if isinstance(it, torch.nn.Linear)}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            trained += parameter.numel()
        elif setup.quantization and id(parameter) in linear and "lm_head" not in name:
            frozen += parameter.numel() * QUANTIZED_BYTES[setup.quantization]
        else:
            frozen += parameter.numel() * setup.stored.itemsize
    layer = max(sum(it.numel() for it in block.parameters()) for block in _blocks(model))
    embedding = max(it.numel() for it in model.parameters())
    return trained, frozen, min(2 * BUCKET, 2 * layer + embedding)


@cache
def _activations(setup: Setup) -> float:
    layers: int = _fields(setup.config)["num_hidden_layers"]
    if layers <= 4:
        return _step(setup, layers)
    one, two = _step(setup, 1), _step(setup, 2)
    return one + (layers - 1) * (two - one)


def _step(setup: Setup, layers: int) -> float:
    """Bytes beside weights and their gradients at the peak of a step."""
    with FakeTensorMode(allow_non_fake_inputs=True), warnings.catch_warnings(action="ignore"):
        _fill(model := _make(setup, layers))
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(_drop)
        ids = torch.zeros(setup.rows, setup.tokens, dtype=torch.long)
        autocast = setup.bf16 and setup.sharding in ("none", "fsdp2")
        peak = _Peak(model)
        with peak:
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                mask = torch.ones_like(ids)
                output = model(input_ids=ids, attention_mask=mask, labels=ids, fused_lm_head=True, use_cache=False)
            output.log_probs.sum().backward()
    return peak.most


class _Peak(TorchDispatchMode):
    """Watches the bytes that tensors take, those of a model's weights apart."""

    def __init__(self, model: torch.nn.Module):
        super().__init__()  # type: ignore[no-untyped-call]
        self.most = 0
        self._now = 0
        self._known = {tensor.untyped_storage()._cdata for tensor in (*model.parameters(), *model.buffers())}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        tree_map_only(torch.Tensor, self._see, made)
        return made

    def _see(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage._cdata in self._known:
            return
        self._known.add(storage._cdata)
        self._now += storage.nbytes()
        self.most = max(self.most, self._now)
        weakref.finalize(storage, self._forget, storage._cdata, storage.nbytes())

    def _forget(self, storage: int, num_bytes: int) -> None:
        self._known.discard(storage)
        self._now -= num_bytes


def _make(setup: Setup, layers: int | None) -> Any:
    """A model without data as it is trained; of so many layers, with TRL's loss, where a number is given."""
    fields = _fields(setup.config)
    if layers is not None:
        fields |= {"num_hidden_layers": layers}
        fields.pop("layer_types", None)
    config = AutoConfig.for_model(**fields)
    adapter = None if setup.adapter is None else models.make_adapter(OmegaConf.create(json.loads(setup.adapter)))
    dtype = setup.stored if adapter is not None and models.training_dtype(adapter) == "auto" else torch.float32
    deepspeed = setup.bf16 and setup.sharding in ("zero2", "zero3")
    if deepspeed:
        dtype = torch.bfloat16
    model = _on_meta(config, dtype)
    model.train()
    if setup.checkpointing:
        with warnings.catch_warnings(action="ignore"):  # the name that TRL still uses
            model.gradient_checkpointing_enable({"use_reentrant": False})
        model.enable_input_require_grads()
    if layers is not None:
        add_fused_lm_head(model, temperature=1.0, outputs=("log_probs", "entropy"))
    if adapter is None:
        return model
    with torch.device("meta"), warnings.catch_warnings(action="ignore"):
        trained: Any = get_peft_model(model, adapter)
    for parameter in trained.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.to(torch.bfloat16 if deepspeed else torch.float32)
    return trained


def _on_meta(config: PretrainedConfig, dtype: torch.dtype) -> Any:
    make: Any = AutoModelForCausalLM.from_config
    with torch.device("meta"), warnings.catch_warnings(action="ignore"):
        return make(config, dtype=dtype, attn_implementation="sdpa")


def _fill(model: torch.nn.Module) -> None:
    """Give a model on the meta device tensors of the mode in which this is called, shared as they were."""
    made: dict[int, Any] = {}
    for module in model.modules():
        for kind in (module._parameters, module._buffers):
            for name, old in kind.items():
                if old is None:
                    continue
                if id(old) not in made:
                    made[id(old)] = torch.empty(old.shape, dtype=old.dtype)
                    if isinstance(old, torch.nn.Parameter):
                        made[id(old)] = torch.nn.Parameter(made[id(old)], requires_grad=old.requires_grad)
                kind[name] = made[id(old)]


def _blocks(model: Any) -> list[torch.nn.Module]:
    """The layers of a transformer."""
    return max((list(it) for it in model.modules() if isinstance(it, torch.nn.ModuleList)), key=len)


def _drop(parameter: torch.Tensor) -> None:
    parameter.grad = None


def _fields(config: str) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(config)
    return fields
