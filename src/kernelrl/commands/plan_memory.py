"""`kernelrl plan recipe=NAME`: the memory that a recipe takes on each device, whether it fits, and what would."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from omegaconf import DictConfig
from rich.table import Table
from transformers import PretrainedConfig

from kernelrl.commands.arguments import Parser
from kernelrl.configs import compose_config, read_node, to_dict
from kernelrl.console import make_console, set_up_logging
from kernelrl.errors import UserError
from kernelrl.policies.settings import ModelSettings
from kernelrl.training import memory, ranks
from kernelrl.training.memory import Memory, Setup, Sharding

DEVICES = {"rtx4090": 24, "a100-40": 40, "l40s": 48, "a100": 80, "h100": 80, "h200": 141, "b200": 180}
"""Memory by name (in GB, as sold)."""
USABLE = 0.9
"""Share of a device's memory: the rest goes to the allocator's fragments and CUDA's context."""
GB = 1e9
ADAPTER = {"r": 16, "target_modules": "all-linear"}
PROMPT_TOKENS = 2048
"""Of a prompt, where `grpo.max_prompt_length` does not say."""


@dataclass(frozen=True)
class Plan:
    """What one stage takes."""

    stage: str
    setup: Setup
    training: Memory
    generation: dict[str, float]
    """What generation takes beside, by what it is (in bytes)."""
    asleep: bool
    """Whether it gives its memory back while the policy trains."""

    @property
    def peak(self) -> float:
        """Of a device (in bytes)."""
        held = self.training.total - self.training.activations
        generation = sum(self.generation.values())
        return held + (
            max(self.training.activations, generation) if self.asleep else self.training.activations + generation
        )


def main(arguments: list[str]) -> int:
    """Run the command; returns its exit code."""
    options = _parse(arguments)
    set_up_logging()
    cfg = compose_config("grpo", options.words)
    config = memory.read_config(cfg.model)
    devices = options.devices or _num_devices(cfg)
    capacity = DEVICES[options.device] * GB if options.device else None
    plans = [plan(cfg, config, stage, devices, capacity) for stage in ("sft", "grpo")]
    executors = _executors(cfg, devices, options.judge_s, options.within_s)
    remedies = {
        each.stage: find_remedies(each, capacity) for each in plans if capacity and each.peak > USABLE * capacity
    }
    if options.json:
        found = {
            "model": {"name": cfg.model.get("name", cfg.model.kind), "parameters": memory.num_parameters(config)},
            "devices": devices,
            "device_gb": capacity and capacity / GB,
            "stages": {
                each.stage: {**asdict(each.training), "generation": each.generation, "peak": each.peak}
                for each in plans
            },
            "executors": executors,
            "remedies": remedies,
        }
        print(json.dumps(found, indent=2))
    else:
        _print(cfg, config, plans, devices, options, executors, remedies)
    return 1 if remedies else 0


def plan(cfg: DictConfig, config: PretrainedConfig, stage: str, devices: int, capacity: float | None) -> Plan:
    """What a stage takes on each of so many devices.

    Args:
        capacity: of a device (in bytes); None: not known.

    Raises:
        UserError: a batch cannot be shared out.
    """
    settings = read_node(ModelSettings, cfg.model, "model")
    fields = ranks.merged_fields(cfg[stage].trainer, cfg.parallel)
    if devices > 1 and cfg.parallel.batch == "global":
        fields |= ranks.share_batch(stage, fields, devices)
    prompt = cfg.grpo.max_prompt_length or PROMPT_TOKENS
    tokens = fields["max_length"] if stage == "sft" else prompt + fields["max_completion_length"]
    stored = getattr(config, "dtype", None) or torch.float32
    adapter = cfg[stage].peft
    setup = Setup(
        config=json.dumps({**config.to_dict(), "dtype": None}),
        rows=fields["per_device_train_batch_size"],
        tokens=tokens,
        adapter=None if adapter is None else json.dumps(to_dict(adapter)),
        stored=stored if settings.dtype == "auto" else getattr(torch, settings.dtype),
        bf16=bool(fields.get("bf16")),
        checkpointing=bool(fields.get("gradient_checkpointing")),
        quantization=settings.quantization,
        sharding=_sharding(fields),
        offload=_zero(fields).get("offload_optimizer") is not None,
        devices=devices,
        accumulation=fields.get("gradient_accumulation_steps", 1),
        reference=stage == "grpo" and fields.get("beta", 0) > 0 and adapter is None,
    )
    elsewhere = stage == "sft" or cfg.launcher.get("generators") or fields.get("vllm_mode") == "server"
    generation, asleep = ({}, True) if elsewhere else _generation(config, fields, setup, capacity)
    return Plan(stage, setup, memory.peak(setup), generation, asleep)


def _generation(
    config: PretrainedConfig, fields: dict[str, Any], setup: Setup, capacity: float | None
) -> tuple[dict[str, float], bool]:
    """What generation takes on a device that trains (in bytes), and whether it gives that back meanwhile."""
    batches = fields.get("steps_per_generation") or fields.get("gradient_accumulation_steps", 1)
    rows = setup.rows * batches
    of_each = setup.tokens * memory.kv_bytes(config, 2 if setup.bf16 else 4)
    if not fields.get("use_vllm"):
        weights = 2 * memory.num_parameters(config) if setup.sharding in ("zero3", "fsdp2") else 0
        return {"gathered weights": weights, f"KV cache of {rows} sequences": rows * of_each}, True
    weights = 2 * memory.num_parameters(config) / fields.get("vllm_tensor_parallel_size", 1)
    cache = rows * of_each
    if capacity is not None:
        cache = max(fields.get("vllm_gpu_memory_utilization", 0.3) * capacity - weights, of_each)
    return {
        "vLLM's weights": weights,
        f"KV cache of {math.floor(cache / of_each)} sequences": cache,
    }, bool(fields.get("vllm_enable_sleep_mode"))


def find_remedies(unfit: Plan, capacity: float) -> list[str]:
    """What would make a stage fit: single changes that do, else the first of them that together do."""
    changes = list(_changes(unfit.setup, unfit.stage))
    alone = [text for text, changed in changes if _fits(unfit, changed, capacity)]
    if alone:
        return alone
    together, setup = [], unfit.setup
    for text, changed in changes:
        differing = {
            key: getattr(changed, key) for key in vars(changed) if getattr(changed, key) != getattr(unfit.setup, key)
        }
        setup = replace(setup, **differing)
        together.append(text)
        if _fits(unfit, setup, capacity):
            return [" and ".join(together)]
    return []


def _fits(unfit: Plan, setup: Setup, capacity: float) -> bool:
    return replace(unfit, setup=setup, training=memory.peak(setup)).peak <= USABLE * capacity


def _changes(setup: Setup, stage: str) -> Iterator[tuple[str, Setup]]:
    """Changes of a set-up that take less memory, the cheapest first, each with what a user types."""
    if not setup.checkpointing:
        yield f"{stage}.trainer.gradient_checkpointing=true", replace(setup, checkpointing=True)
    if setup.rows > 1:
        yield f"one sequence a micro-batch ({stage}.trainer.per_device_train_batch_size)", replace(setup, rows=1)
    if setup.devices > 1:
        if setup.sharding == "none":
            yield "parallel=zero2", replace(setup, sharding="zero2")
        if setup.sharding != "zero3":
            yield "parallel=zero3", replace(setup, sharding="zero3")
    if not setup.offload:
        yield "parallel=zero3_offload", replace(setup, sharding="zero3", offload=True)
    if setup.adapter is None:
        yield f"LoRA: {stage}.peft={{r: 16, target_modules: all-linear}}", replace(setup, adapter=json.dumps(ADAPTER))
    elif setup.quantization is None:
        yield "model.quantization=4bit", replace(setup, quantization="4bit")


def _sharding(fields: dict[str, Any]) -> Sharding:
    if (stage := _zero(fields).get("stage")) is not None:
        return "zero3" if stage == 3 else "zero2"
    return "fsdp2" if fields.get("fsdp") else "none"


def _zero(fields: dict[str, Any]) -> dict[str, Any]:
    """What DeepSpeed is told of the sharing out."""
    told = fields.get("deepspeed")
    return dict(told.get("zero_optimization") or {}) if isinstance(told, dict) else {}


def _num_devices(cfg: DictConfig) -> int:
    """Devices that train, as the launcher is set up; else those of this machine."""
    each = cfg.launcher.processes or cfg.launcher.get("gpus_per_node") or torch.cuda.device_count() or 1
    return int(cfg.nodes * each)


def _executors(cfg: DictConfig, devices: int, judge_s: float, within_s: float) -> dict[str, float]:
    """Workers that judge a step's completions within a time."""
    fields = ranks.merged_fields(cfg.grpo.trainer, cfg.parallel)
    batches = fields.get("steps_per_generation") or fields.get("gradient_accumulation_steps", 1)
    ranks_of_batch = 1 if cfg.parallel.batch == "global" else devices
    completions = fields["per_device_train_batch_size"] * batches * ranks_of_batch
    workers = math.ceil(completions * judge_s / within_s)
    return {"completions": completions, "judge_s": judge_s, "within_s": within_s, "workers": workers}


def _print(
    cfg: DictConfig,
    config: PretrainedConfig,
    plans: Sequence[Plan],
    devices: int,
    options: argparse.Namespace,
    executors: dict[str, float],
    remedies: dict[str, list[str]],
) -> None:
    out = make_console()
    name = cfg.model.get("name", cfg.model.kind)
    where = f"{devices} x {options.device or 'a device'}"
    out.print(
        f"{name}, {memory.num_parameters(config) / 1e9:.3g} billion weights, on {where}; GB on each:", highlight=False
    )
    table = Table()
    for column in ("", *(each.stage for each in plans)):
        table.add_column(column, justify="right" if column else "left")
    for row in ("weights", "gradients", "optimizer", "activations", "buffers"):
        table.add_row(row, *(_gb(getattr(each.training, row)) for each in plans))
    for kind in dict.fromkeys(kind for each in plans for kind in each.generation):
        table.add_row(kind, *(_gb(each.generation[kind]) if kind in each.generation else "" for each in plans))
    table.add_section()
    table.add_row("peak", *(_gb(each.peak) for each in plans), style="bold")
    if any(each.training.host for each in plans):
        table.add_row("on the host, for each", *(_gb(each.training.host) for each in plans))
    out.print(table)
    for each in plans:
        out.print(f"{each.stage}: {_describe(each)}", highlight=False)
    out.print(
        f"executors: {executors['completions']} completions a step; where one takes {executors['judge_s']:g} s, "
        f"{executors['workers']} workers judge them within {executors['within_s']:g} s "
        "(`kernelrl plan RUN` simulates it from a run's own times)",
        highlight=False,
    )
    if options.device is None:
        out.print(f"Whether it fits: --device {'|'.join(DEVICES)}", highlight=False)
    for stage, ways in remedies.items():
        out.print(
            f"[red]{stage} does not fit[/] {options.device} ({DEVICES[options.device]} GB, of which {USABLE:.0%} are "
            f"counted on). It would with: {'; or '.join(ways) if ways else 'more devices, or larger ones'}",
            highlight=False,
            markup=True,
        )


def _describe(plan: Plan) -> str:
    setup = plan.setup
    parts = [f"{setup.rows} x {setup.tokens:,} tokens a micro-batch", f"sharding {setup.sharding}"]
    parts += ["LoRA" if setup.adapter else "all weights", "bfloat16" if setup.bf16 else "float32"]
    return ", ".join(parts + (["checkpointing"] if setup.checkpointing else []))


def _gb(num_bytes: float) -> str:
    return f"{num_bytes / GB:,.1f}" if num_bytes >= 1e8 else f"{num_bytes / GB:.3g}"


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog="kernelrl plan",
        usage="kernelrl plan recipe=NAME [override ...] [--device NAME] [--devices N] [--json]",
        description="The memory that a training takes on each device, from the model's config alone, and what would "
        "make it fit. Exit code 1: it does not fit.",
        epilog="example:\n  kernelrl plan recipe=qwen3_8b_lora --device h100",
    )
    parser.add_argument("words", nargs="+", metavar="override", help="as for kernelrl grpo")
    parser.add_argument("--device", choices=DEVICES, help="warn where it does not fit")
    parser.add_argument("--devices", type=int, help="that train together (default: as the launcher is set up)")
    parser.add_argument("--judge-s", type=float, default=2.0, help="seconds to judge one candidate (default 2)")
    parser.add_argument("--within-s", type=float, default=60.0, help="seconds for those of a step (default 60)")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    options = parser.parse_intermixed_args(arguments)
    if options.devices is not None and options.devices < 1:
        raise UserError(f"--devices {options.devices}: at least 1")
    return options
