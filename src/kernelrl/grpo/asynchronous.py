"""Asynchronous GRPO (TRL's `AsyncGRPOTrainer`): a vLLM server generates while the policy is trained.

Completions may come from a policy that is a few steps old: `max_staleness` bounds how many, older ones are dropped, and
the log has the mean and the largest (`sample/staleness_*`). Rewards are computed in a process of TRL's own, which has
the executor and writes the ledger. Not covered: strategies over turns, rewards of a plan, a KL term, validation, a
verifier, a curriculum, other baselines, what replaces groups or adjusts rewards, and judging ahead. Written from TRL's
source; not run on GPUs yet.
"""

from __future__ import annotations

import atexit
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
from omegaconf import DictConfig, OmegaConf
from peft import PeftConfig
from pydantic import BaseModel, ConfigDict, Field
from transformers import PreTrainedTokenizerBase, Trainer, TrainerCallback, TrainingArguments

from kernelrl.configs import to_dict
from kernelrl.data.tables import read_references
from kernelrl.errors import UserError
from kernelrl.executor import make_executor
from kernelrl.grpo.reward_function import RewardFunction
from kernelrl.policies.models import open_tokenizer
from kernelrl.policies.prompts import Message, Reasoning
from kernelrl.policies.settings import ModelSettings
from kernelrl.records import Ledger
from kernelrl.rewards import make_reward
from kernelrl.stage_folder import LOG, StageFolder, read_log
from kernelrl.training import ranks, tracking
from kernelrl.training.checkpoints import StageCallback, prepare, save_final, show_progress, train
from kernelrl.training.finite import FiniteCallback
from kernelrl.training.lengths import keep_short_prompts
from kernelrl.training.seals import CHECKPOINTS, FINAL

FIXED = {"beta": 0.0, "num_iterations": 1, "loss_type": "dapo", "scale_rewards": "none"}
"""Fields of `trl.GRPOConfig` that this trainer has not: what it does instead. It divides advantages by the deviation of
their group, which `Unscaled` takes back."""
DEFAULTS = {
    "rates": None,
    "turns.baseline": "group",
    "groups.resample": 0,
    "groups.replay": None,
    "adjust.overlong": None,
    "adjust.coverage": None,
}
"""Settings of `grpo` that this trainer does not carry out, with the values that ask for nothing."""


class Asynchronous(BaseModel):
    """`grpo.asynchronous`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_staleness: int = Field(ge=0)
    """Steps that a completion's policy may be behind; older completions are dropped."""
    weight_sync_steps: int = Field(ge=1)
    """Steps between two transfers of the weights to the server."""
    server: str | None
    """URL of `vllm serve`; None: the one that `launcher.generators=1` starts."""


def make_arguments(settings: Asynchronous, trainer: Mapping[str, Any], **others: Any) -> Any:
    """The arguments of the asynchronous trainer.

    Args:
        trainer: fields of `trl.GRPOConfig`, as for the other trainers.
        others: further fields.

    Raises:
        UserError: a field that this trainer does not have, or no server.
    """
    from trl.experimental.async_grpo.async_grpo_config import AsyncGRPOConfig

    for name, value in FIXED.items():
        if trainer.get(name, value) != value:
            raise UserError(f"grpo.trainer.{name}={trainer[name]}: grpo.asynchronous needs {value}")
    known = {each.name for each in fields(AsyncGRPOConfig)}
    base = {each.name for each in fields(TrainingArguments)}
    passed = {name: value for name, value in trainer.items() if name not in FIXED and not name.startswith("vllm_")}
    passed.pop("use_vllm", None)
    if unknown := sorted(passed.keys() - known - base):
        raise UserError(f"grpo.trainer.{unknown[0]}: grpo.asynchronous does not have it; take it out with ~")
    server = settings.server or os.environ.get("KERNELRL_VLLM_URL")
    if server is None:
        raise UserError(
            "grpo.asynchronous needs a vLLM server: launcher.generators=1, or its URL in grpo.asynchronous.server"
        )
    return AsyncGRPOConfig(
        **passed,
        **others,
        vllm_server_base_url=server,
        max_staleness=settings.max_staleness,
        weight_sync_steps=settings.weight_sync_steps,
    )


def check(cfg: DictConfig, settings: Asynchronous) -> None:
    """Check what can be known before anything is loaded.

    Raises:
        UserError: a choice that this trainer does not cover.
    """
    if cfg.strategy.name != "single":
        raise UserError(f"strategy={cfg.strategy.name}: not with grpo.asynchronous; use strategy=single")
    if make_reward(cfg.reward).plan is not None:
        raise UserError(f"reward {cfg.reward.name} pays the plan by itself: not with grpo.asynchronous")
    if ranks.merged_fields(cfg.grpo.trainer, cfg.parallel).get("deepspeed"):
        raise UserError("grpo.asynchronous: not with DeepSpeed; use parallel=fsdp2 or parallel=ddp")
    if "verifier" in cfg:
        raise UserError("verifier: not with grpo.asynchronous; leave it out")
    if "curriculum" in cfg:
        raise UserError("curriculum: not with grpo.asynchronous, where TRL draws the tasks; leave it out")
    for name, value in DEFAULTS.items():
        if (given := OmegaConf.select(cfg.grpo, name)) != value:
            raise UserError(f"grpo.{name}={given}: not with grpo.asynchronous; leave it out")
    if cfg.grpo.trainer.get("eval_strategy", "no") != "no":
        raise UserError("grpo.trainer.eval_strategy: not with grpo.asynchronous; leave it out")
    make_arguments(
        settings.model_copy(update={"server": settings.server or "http://launched:1"}),
        to_dict(cfg.grpo.trainer) | {"use_cpu": True, "bf16": False},
        output_dir=str(cfg.grpo.folder),
        report_to=[],
    )


def run(
    cfg: DictConfig,
    settings: Asynchronous,
    stage: StageFolder,
    start: Path,
    rows: list[dict[str, Any]],
    model: ModelSettings,
    adapter: PeftConfig | None,
) -> None:
    """Train in an open stage; a resumed training goes on from its last whole checkpoint with new completions.

    Args:
        start: folder of the whole model that training starts from.
        rows: tasks.
    """
    tokenizer = open_tokenizer(start, model)
    rows = keep_short_prompts(rows, tokenizer, model, cfg.grpo.max_prompt_length)
    finite = FiniteCallback(stage.path)
    callbacks = [StageCallback(stage.path / LOG), finite]
    trainer = make_trainer(cfg, settings, start, stage.path, rows, tokenizer, model, adapter, callbacks)
    finite.watch(trainer)
    prepare(trainer, stage.path, start)

    def save() -> None:
        save_final(trainer, start, stage.path / FINAL, model)
        seconds = read_log(stage.path / LOG)[-1]["seconds"]
        stage.finish({"steps": trainer.state.global_step, "tasks": len(rows), "seconds": seconds})

    with show_progress(trainer, "grpo", ["reward", "sample/staleness_mean"]):
        train(trainer, stage.path, save)


def make_trainer(
    cfg: DictConfig,
    settings: Asynchronous,
    policy: Path,
    folder: Path,
    rows: list[dict[str, Any]],
    tokenizer: PreTrainedTokenizerBase,
    model: ModelSettings,
    adapter: PeftConfig | None,
    callbacks: Sequence[TrainerCallback],
) -> Trainer:
    """TRL's trainer, with this project's rewards.

    Args:
        policy: folder of the whole model that training starts from.
        folder: of the stage.
        rows: tasks.
    """
    from trl.experimental.async_grpo.async_grpo_trainer import AsyncGRPOTrainer

    trainer_cfg = ranks.trainer_fields("grpo", cfg.grpo.trainer, cfg.parallel)
    arguments = make_arguments(
        settings,
        tracking.start(cfg, "grpo") | trainer_cfg,
        output_dir=str(folder / CHECKPOINTS),
        seed=cfg.seed,
        chat_template_kwargs=model.chat_template_kwargs,
        trust_remote_code=model.trust_remote_code,
    )
    completions = arguments.per_device_train_batch_size * arguments.gradient_accumulation_steps * ranks.num_ranks()
    max_groups = max(1, arguments.max_steps * completions // arguments.num_generations)
    reward: Any = AsyncReward(cfg, folder, Reasoning.of(tokenizer, model), max_groups)
    trainer = AsyncGRPOTrainer(
        model=str(policy),
        reward_funcs=reward,
        args=arguments,
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=tokenizer,
        callbacks=list(callbacks),
        peft_config=adapter,
    )
    if getattr(trainer, "rollout_queue", None) is not None:  # on the main rank
        queue: Any = Unscaled(trainer.rollout_queue)
        trainer.rollout_queue = queue
    return trainer


@dataclass
class AsyncReward:
    """The reward function of TRL's rollout process: it opens the executor there, with the first group.

    It is pickled into that process, so it holds settings and opens everything else itself. A batch is one group, and
    the step that a record has is the number of groups before it: the process is not told of the trainer's.
    """

    cfg: DictConfig
    folder: Path
    """Of the stage."""
    reasoning: Reasoning
    max_groups: int
    """Of the whole training, for weights that move with it."""
    _function: RewardFunction | None = field(default=None, init=False)
    _groups: int = field(default=0, init=False)

    __name__ = "kernelrl"

    def __call__(
        self,
        prompts: list[list[Message]],
        completions: list[list[Message]],
        task: list[str],
        completion_ids: list[list[int]],
        **columns: Any,
    ) -> list[float | None]:
        """Rewards of the completions of one group; None: left out."""
        if self._function is None:
            self._function = self._open()
        state: Any = SimpleNamespace(global_step=self._groups, max_steps=self.max_groups, logging_steps=1)
        self._groups += 1
        return self._function(prompts, completions, task, state, lambda name, value: None, completion_ids)

    def _open(self) -> RewardFunction:
        executor = make_executor(to_dict(self.cfg.executor))
        atexit.register(executor.close)
        reward = make_reward(self.cfg.reward)
        references = read_references(Path(self.cfg.grpo.references), needed="similarity" in reward.measures)
        ledger = Ledger(self.folder / "records")
        self._groups = 1 + max((record.step for record in ledger), default=-1)  # of the part before a resumption
        name = self.cfg.name
        return RewardFunction(executor, reward, ledger, self.cfg.dialect, name, references, None, self.reasoning)


class Unscaled:
    """TRL's queue of samples, whose advantages are divided by the deviation of their group, without that division.

    Dividing by it makes the noise of equally fast kernels as large as the difference between right and wrong (Dr. GRPO,
    arXiv 2503.20783).
    """

    def __init__(self, queue: Any):
        self._queue = queue

    def get(self, *args: Any, **kwargs: Any) -> Any:
        """The next sample of the queue."""
        sample = self._queue.get(*args, **kwargs)
        deviation = sample.metrics["reward_std"]
        if math.isfinite(deviation):  # NaN where no completion of the group has a reward; then the advantages are 0
            sample.advantage *= deviation
        return sample

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)
