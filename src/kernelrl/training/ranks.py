"""Several processes (ranks) that train one model: who is who, and what they do together.

`launch` starts them, with `RANK` and `WORLD_SIZE` in their environment as torch has it. What needs the others works
once the trainer's arguments have been made: these open the process group.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object
from omegaconf import DictConfig, OmegaConf

from kernelrl.configs import to_dict
from kernelrl.errors import UserError
from kernelrl.stage_folder import is_main_rank

T = TypeVar("T")
POLL_S = 0.2


def num_ranks() -> int:
    """How many ranks there are."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    """Which of them this is, from 0."""
    return int(os.environ.get("RANK", "0"))


def await_path(path: Path) -> None:
    """Wait for what the main rank is about to make; whoever started the ranks ends this one when that one fails."""
    while not is_main_rank() and not path.exists():
        time.sleep(POLL_S)


def wait_for_all() -> None:
    """Return when every rank has called this."""
    PartialState().wait_for_everyone()


def from_main(make: Callable[[], T]) -> T:
    """What the main rank makes, on every rank."""
    made: list[Any] = [make() if is_main_rank() else None]
    if num_ranks() > 1:
        broadcast_object_list(made)
    return made[0]  # type: ignore[no-any-return]


def gathered(items: list[T]) -> list[T]:
    """The items of all ranks, in their order, on every rank."""
    return list(gather_object(items)) if num_ranks() > 1 else items


def any_rank(flag: bool) -> bool:
    """Whether the flag is set on one of the ranks."""
    if num_ranks() == 1:
        return flag
    flags = torch.tensor(int(flag), device=PartialState().device)
    torch.distributed.all_reduce(flags, torch.distributed.ReduceOp.MAX)
    return bool(flags)


def merged_fields(trainer: DictConfig, parallel: DictConfig) -> dict[str, Any]:
    """The fields of a trainer's arguments as ranks have them, before the batch is shared out.

    Args:
        trainer: the stage's own fields, e.g. `cfg.sft.trainer`; they are stronger, key by key at any depth.
        parallel: `cfg.parallel`.
    """
    return cast(dict[str, Any], OmegaConf.to_container(OmegaConf.merge(to_dict(parallel.trainer), to_dict(trainer))))


def holds_the_model(fields: Mapping[str, Any]) -> bool:
    """Whether another library (DeepSpeed, FSDP) is to hold the model: it has ranks, be there a single one."""
    return bool(fields.get("deepspeed") or fields.get("fsdp"))


def trainer_fields(stage: str, trainer: DictConfig, parallel: DictConfig) -> dict[str, Any]:
    """The fields of a trainer's arguments on this rank.

    Args:
        stage: for messages.
        trainer: the stage's own fields, e.g. `cfg.sft.trainer`.
        parallel: `cfg.parallel`; its fields come in where ranks were started, under the stage's own (`merged_fields`).

    Raises:
        UserError: the batch cannot be shared out evenly.
    """
    ranked = "WORLD_SIZE" in os.environ
    fields = merged_fields(trainer, parallel) if ranked else to_dict(trainer)
    if stage == "grpo" and (url := os.environ.get("KERNELRL_VLLM_URL")):  # a node of this job generates
        fields |= {"use_vllm": True, "vllm_mode": "server", "vllm_server_base_url": url, "vllm_server_timeout": 1800.0}
    if not ranked:
        return fields
    if parallel.batch == "global":
        fields |= share_batch(stage, fields, num_ranks())
    if not torch.accelerator.is_available():
        fields["use_cpu"] = True  # else the ranks would not be put in one group
    if fields.get("deepspeed"):
        import deepspeed

        backend = None
        if not torch.accelerator.is_available():
            backend = "gloo"
            # it would be compiled first, for half a minute, to do what gloo does
            deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
        timeout = timedelta(seconds=fields["ddp_timeout"])  # else ten minutes: the trainer's comes too late
        deepspeed.init_distributed(backend, timeout=timeout)  # ZeRO-3 shares what it loads
    return fields


def share_batch(stage: str, fields: Mapping[str, Any], num_ranks: int) -> dict[str, int]:
    """The batch of one rank, so that all of them together train on the batch that the fields give to one.

    The samples of a step are shared out first, then its accumulation steps.

    Raises:
        UserError: it cannot be done evenly.
    """
    batch, steps = fields["per_device_train_batch_size"], fields.get("gradient_accumulation_steps", 1)
    by_batch = math.gcd(batch, num_ranks)
    by_steps = num_ranks // by_batch
    generation = fields.get("steps_per_generation")
    if steps % by_steps or (generation or 0) % by_steps:
        raise UserError(
            f"{stage}.trainer: a batch of per_device_train_batch_size={batch} x gradient_accumulation_steps={steps} "
            f"cannot be shared out among {num_ranks} ranks; choose multiples of {num_ranks}, or parallel.batch=rank"
        )
    shared = {"per_device_train_batch_size": batch // by_batch, "gradient_accumulation_steps": steps // by_steps}
    if generation is not None:
        shared["steps_per_generation"] = generation // by_steps
    return shared
