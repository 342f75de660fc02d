"""What is checked before long work starts, so that a missing compiler or a full disk costs a second, not a night."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from omegaconf import DictConfig

from kernelrl import dialects
from kernelrl.configs import read_node, to_dict
from kernelrl.errors import UserError
from kernelrl.executor import ExecutorSettings, machine
from kernelrl.policies.settings import ModelSettings
from kernelrl.rewards import make_reward
from kernelrl.stage_folder import SETTINGS, is_done, require_free_disk, require_writable

FREE_BYTES = {"curate": 1 << 28, "sft": 1 << 30, "grpo": 1 << 30, "eval": 1 << 28, "search": 1 << 28, "report": 1 << 26}
"""Disk that a stage needs at least (in bytes). How large the checkpoints of a model are, its training stage checks."""

log = logging.getLogger(__name__)


def require_all(cfg: DictConfig, stages: Sequence[str], here: bool = True, ask_hub: bool = True) -> None:
    """Check what the given stages need and other stages do not make; stages that have finished need nothing.

    Args:
        here: whether they run on this machine. A login node has neither the GPU nor the compilers of the nodes that run
            them: then these are not checked.
        ask_hub: whether a base model that is not here is looked for on the hub.

    Raises:
        UserError: one line that names what is missing and the way out.
    """
    waiting = [stage for stage in stages if stage == "report" or not is_done(cfg[stage].folder)]
    if (Path(cfg.output_dir) / SETTINGS).exists():
        raise UserError(
            f"output_dir={cfg.output_dir} is the folder of one stage; give the folder of the whole run, or a new one"
        )
    if waiting:
        require_writable(cfg.output_dir, "choose another output_dir=")
    if {"curate", "grpo", "eval", "search"} & set(waiting):
        require_machine(cfg.dialect, read_node(ExecutorSettings, cfg.executor, "executor"), here)
    if "curate" in waiting:
        _require_curation(cfg, here)
    if waiting:
        require_free_disk(cfg.output_dir, sum(FREE_BYTES[stage] for stage in waiting))
    if {"grpo", "eval"} & set(waiting):
        reward = make_reward(cfg.reward)
        if "grpo" in waiting and "judge" in reward.measures and "verifier" not in cfg:
            raise UserError(
                f"reward {reward.name} asks a verifier, and there is none; add verifier=endpoint verifier.model=…"
            )
    if "eval" in waiting and "import" not in cfg:
        from kernelrl.eval.settings import read_settings

        read_settings(cfg.eval)
        if here and cfg.eval.backend == "vllm":
            _require_package("vllm", "eval.backend=vllm", "vllm")
    if "search" in waiting:
        from kernelrl.search.stage import check_settings

        check_settings(cfg)
        make_reward(cfg.reward)
    if {"sft", "grpo"} & set(waiting):
        _require_training(cfg, waiting, here, ask_hub)


def _require_curation(cfg: DictConfig, here: bool) -> None:
    from kernelrl.data.curate import make_teachers
    from kernelrl.data.selection import make_selector

    make_selector(cfg.selection, cfg.curate.timing)
    if not is_done(cfg.curate.verified):
        settings = read_node(ExecutorSettings, cfg.executor, "executor")
        for _, dialect in make_teachers(cfg):
            require_machine(dialect, settings, here)


NO_DEVICE = {"use_cpu": True, "bf16": False, "fp16": False, "tf32": None, "deepspeed": None}
"""Fields of a trainer's arguments with which they can be made on any machine, to check the others."""


def _require_training(cfg: DictConfig, waiting: Sequence[str], here: bool, ask_hub: bool) -> None:
    from trl import GRPOConfig, SFTConfig

    from kernelrl.policies import models
    from kernelrl.training import ranks, tracking
    from kernelrl.training.rates import read_rates

    tracking.check(cfg.tracker)
    num_ranks = _num_ranks(cfg, here)
    settings = read_node(ModelSettings, cfg.model, "model")
    for stage, config in (("sft", SFTConfig), ("grpo", GRPOConfig)):
        if stage in waiting:
            fields = ranks.merged_fields(cfg[stage].trainer, cfg.parallel)
            if here and fields.get("deepspeed"):
                own = cfg[stage].trainer.get("deepspeed")
                asked_by = f"{stage}.trainer.deepspeed" if own else "parallel=zero2 or zero3"
                _require_package("deepspeed", asked_by, "gpu")
            alone = to_dict(cfg[stage].trainer) | ({} if here else NO_DEVICE)
            try:
                config(**alone, output_dir=str(cfg[stage].folder), report_to=[])
            except (TypeError, ValueError) as error:
                raise UserError(f"{stage}.trainer: {str(error).splitlines()[0]} (trl.{config.__name__})") from None
            if num_ranks > 1 and cfg.parallel.batch == "global":
                ranks.share_batch(stage, fields, num_ranks)
            if here:
                models.check_quantization(settings, models.make_adapter(cfg[stage].peft), stage)
            if here and fields.get("use_vllm"):
                _require_package("vllm", f"{stage}.trainer.use_vllm", "vllm")
    if "grpo" in waiting and read_rates(cfg.grpo.rates):
        fields = ranks.merged_fields(cfg.grpo.trainer, cfg.parallel).get("deepspeed") or {}
        if "optimizer" in fields or "scheduler" in fields:
            raise UserError("grpo.rates: not with an optimizer or a scheduler of DeepSpeed's own")
    if "grpo" in waiting and cfg.grpo.asynchronous is not None:
        from kernelrl.grpo import asynchronous

        asynchronous.check(cfg, read_node(asynchronous.Asynchronous, cfg.grpo.asynchronous, "grpo.asynchronous"))
    if "sft" in waiting:
        models.check_base(cfg.model, ask_hub)
    if cfg.model.kind != "tiny":
        _warn_of_tiny(cfg, [stage for stage in ("sft", "grpo") if stage in waiting])


HIGH_RATES = {False: 1.0e-4, True: 1.0e-3}
"""Learning rates above which a pretrained model loses what it knows, of all its weights and of an adapter."""
SHORT_ANSWER = 1024
"""Tokens within which a language model hardly writes its reasoning and a kernel."""


def _warn_of_tiny(cfg: DictConfig, stages: Sequence[str]) -> None:
    """Say where a pretrained model is given what the tiny one needs, which starts from random weights."""
    wrong = []
    for stage in stages:
        rate = cfg[stage].trainer.get("learning_rate")
        if rate is not None and rate > HIGH_RATES[cfg[stage].peft is not None]:
            wrong.append(f"{stage}.trainer.learning_rate={rate:g}")
    if "grpo" in stages and cfg.grpo.trainer.get("max_completion_length", SHORT_ANSWER) < SHORT_ANSWER:
        wrong.append(f"grpo.trainer.max_completion_length={cfg.grpo.trainer.max_completion_length}")
    if wrong:
        model = cfg.model.get("name", cfg.model.kind)
        log.warning(
            f"{', '.join(wrong)}: these suit the tiny model and not {model}; recipes of pretrained models: "
            "qwen3_8b_lora, qwen3_8b_full, qwen2_5_coder_32b"
        )


def _num_ranks(cfg: DictConfig, here: bool) -> int:
    """Ranks that train; where each node has one for each GPU, as many as are known of."""
    import torch

    each = cfg.launcher.processes or cfg.launcher.get("gpus_per_node") or (torch.cuda.device_count() if here else 1)
    return int(cfg.nodes * max(1, each))


def _require_package(name: str, asked_by: str, extra: str) -> None:
    """Hours before it is imported.

    Raises:
        UserError: it is not installed.
    """
    if find_spec(name) is None:
        raise UserError(f"{asked_by}: {name} is not installed; pip install 'kernelrl[{extra}]'")


def require_machine(dialect: str, settings: ExecutorSettings, here: bool = True) -> None:
    """Check that the dialect is known and, where candidates run here, that it can be built and the device is there.

    Args:
        here: whether they run here, where the engine is the local one.

    Raises:
        UserError: unknown dialect, no compiler for it, a cache that cannot be written, or `cuda` asked for and absent.
    """
    dialects.get(dialect)
    if here and settings.engine == "local":
        _require_here(dialect, settings.device)
        require_writable(Path(settings.cache_dir).expanduser(), "choose another executor.cache_dir=")
    if settings.device == "cuda" and dialect == "cpp":
        raise UserError("executor.device=cuda: C++ kernels run on the CPU; use executor.device=cpu")


def _require_here(dialect: str, device: str) -> None:
    if missing := machine.missing_compiler(dialect):
        raise UserError(missing)
    if device == "cuda" and not machine.has_gpu():
        raise UserError("executor.device=cuda: torch sees no GPU here; see `kernelrl doctor`")
