"""GRPO: the policy learns from the executor's verdicts (TRL's `GRPOTrainer`).

The stage folder holds `start/` (an adapter that it was given, merged), `checkpoints/`, `final/` (the policy),
`log.jsonl` and `records/`, the ledger of all completions.
"""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

import datasets
from omegaconf import DictConfig
from trl import GRPOConfig, GRPOTrainer

from kernelrl.configs import read_node, to_dict
from kernelrl.data.tables import TASKS_TRAIN, read_references, read_table
from kernelrl.executor import make_executor
from kernelrl.executor.api import deciding_settings
from kernelrl.executor.engines.health import Heartbeat
from kernelrl.grpo.alarms import AlarmCallback
from kernelrl.grpo.hierarchical import HierarchicalGRPOTrainer, PlanReward
from kernelrl.grpo.retest import Retest, RetestSettings
from kernelrl.grpo.reward_function import RewardFunction, SharedRewardFunction
from kernelrl.policies import models
from kernelrl.policies.prompts import Reasoning
from kernelrl.policies.settings import ModelSettings
from kernelrl.policies.verifier import Verifier
from kernelrl.records import Ledger, digest
from kernelrl.rewards import Reward, make_reward
from kernelrl.stage_folder import LOG, is_main_rank, open_stage, read_log
from kernelrl.training import ranks
from kernelrl.training.checkpoints import (
    CHECKPOINTS,
    FINAL,
    StageCallback,
    digests,
    last_checkpoint,
    prepare,
    save_final,
    show_progress,
    train,
)
from kernelrl.training.lengths import keep_short_prompts
from kernelrl.training.tracking import report_to

log = logging.getLogger(__name__)


def run(cfg: DictConfig) -> Path:
    """Train, or go on from the last whole checkpoint. Returns the stage folder.

    Raises:
        UserError: no tasks, missing columns, no policy, no disk space, unknown reward.
    """
    tasks_file = Path(cfg.grpo.data) / TASKS_TRAIN
    rows = read_table(tasks_file, ["task_id", "prompt", "task"])
    policy_folder = models.check_policy(cfg.grpo.policy)
    reward = make_reward(cfg.reward)
    references = read_references(Path(cfg.grpo.references), needed="similarity" in reward.measures)
    retest_settings = read_node(RetestSettings, cfg.grpo.retest, "grpo.retest")
    adapter = models.make_adapter(cfg.grpo.peft)
    model_settings = read_node(ModelSettings, cfg.model, "model")
    models.check_quantization(model_settings, adapter, "grpo")
    settings = {
        "seed": cfg.seed,
        "model": model_settings.deciding,
        "max_prompt_length": cfg.grpo.max_prompt_length,
        "dialect": cfg.dialect,
        "policy": digests(policy_folder),
        "data": digest(tasks_file),
        "reward": cfg.reward,
        "retest": cfg.grpo.retest,
        "verifier": cfg.verifier.model if "verifier" in cfg else None,
        "executor": deciding_settings(to_dict(cfg.executor)),
        "trainer": cfg.grpo.trainer,
        "peft": cfg.grpo.peft,
    }
    with open_stage("grpo", cfg.grpo.folder, settings) as stage:
        if stage.done:
            return stage.path
        start = _make_start(policy_folder, stage.path / "start", model_settings)
        arguments = GRPOConfig(
            **ranks.trainer_fields("grpo", cfg.grpo.trainer, cfg.parallel),
            output_dir=str(stage.path / CHECKPOINTS),
            seed=cfg.seed,
            report_to=report_to(cfg, "grpo"),
            chat_template_kwargs=model_settings.chat_template_kwargs,
            reward_weights=[1.0, reward.plan.weight] if reward.plan else None,
        )
        # after the arguments: they say how the ranks share it
        model, tokenizer = models.load_policy(start, models.training_dtype(adapter), model_settings, adapter)
        reasoning = Reasoning.of(tokenizer, model_settings)
        rows = keep_short_prompts(rows, tokenizer, model_settings, cfg.grpo.max_prompt_length)
        with contextlib.ExitStack() as stack:
            reward_function = None
            if is_main_rank():
                ledger = Ledger(stage.path / "records")
                _set_aside_repeated(ledger, last_checkpoint(stage.path / CHECKPOINTS))
                reward_function = _make_reward_function(
                    cfg, stack, reward, ledger, retest_settings, references, reasoning
                )
            shared = SharedRewardFunction(reward_function, reasoning)
            trainer_class = HierarchicalGRPOTrainer if reward.plan else GRPOTrainer
            trainer = trainer_class(
                model=model,
                reward_funcs=[shared, PlanReward(shared)] if reward.plan else shared,
                args=arguments,
                train_dataset=datasets.Dataset.from_list(rows),
                processing_class=tokenizer,
                peft_config=adapter,
                callbacks=[StageCallback(stage.path / LOG), AlarmCallback(stage.path / LOG)],
            )

            prepare(trainer, stage.path)

            def save() -> None:
                save_final(trainer, start, stage.path / FINAL, model_settings)
                seconds = read_log(stage.path / LOG)[-1]["seconds"]
                stage.finish({"steps": trainer.state.global_step, "tasks": len(rows), "seconds": seconds})

            with show_progress(trainer, "grpo", ["reward", "correct"]):
                train(trainer, stage.path, save)
        return stage.path


def _make_start(policy: Path, folder: Path, settings: ModelSettings) -> Path:
    """The whole model that training starts from; an adapter is merged into `folder` by the main rank."""
    if not models.is_adapter(policy):
        return policy
    if is_main_rank():
        models.make_whole(policy, folder, settings)
    ranks.await_path(folder)
    return folder


def _make_reward_function(
    cfg: DictConfig,
    stack: contextlib.ExitStack,
    reward: Reward,
    ledger: Ledger,
    retest_settings: RetestSettings,
    references: dict[str, list[str]],
    reasoning: Reasoning,
) -> RewardFunction:
    """The reward function, with an executor and a verifier that end with the stack."""
    executor = stack.enter_context(make_executor(to_dict(cfg.executor)))
    stack.enter_context(Heartbeat(executor, ledger.folder.parent))
    retest = Retest(executor, retest_settings)
    retest.learn(ledger)
    verifier = stack.enter_context(contextlib.closing(Verifier(cfg.verifier))) if "verifier" in cfg else None
    return RewardFunction(executor, reward, ledger, cfg.dialect, cfg.name, retest, references, verifier, reasoning)


def _set_aside_repeated(ledger: Ledger, checkpoint: Path | None) -> None:
    """Move the records of the steps after the checkpoint out of the ledger: those steps are about to be repeated."""
    step = int(checkpoint.name.split("-")[1]) if checkpoint else 0
    moved = ledger.set_aside(lambda record: record.step >= step)
    if moved:
        log.warning(f"{ledger.folder}: {moved} record(s) of step {step} and later set aside; those steps are repeated")
