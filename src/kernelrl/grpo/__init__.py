"""GRPO: the policy learns from the executor's verdicts (TRL's `GRPOTrainer`).

The stage folder holds `start/` (an adapter that it was given, merged), `checkpoints/`, `final/` (the policy),
`log.jsonl` and `records/`, the ledger of all completions.
"""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import Any

import datasets
from omegaconf import DictConfig
from trl import GRPOConfig

from kernelrl.configs import read_node, to_dict
from kernelrl.data.tables import TASKS_HELDOUT, TASKS_TRAIN, iterate_table, read_references, read_table
from kernelrl.errors import UserError
from kernelrl.executor import make_executor
from kernelrl.executor.api import deciding_settings
from kernelrl.executor.engines.health import Heartbeat
from kernelrl.grpo import asynchronous
from kernelrl.grpo.adjusting import Adjust
from kernelrl.grpo.alarms import AlarmCallback
from kernelrl.grpo.attempt_rewards import AttemptRewardFunction
from kernelrl.grpo.curriculum import Curriculum, CurriculumSettings
from kernelrl.grpo.group_choice import GroupChoice, GroupChoiceCallback, GroupSettings
from kernelrl.grpo.hierarchical import HierarchicalGRPOTrainer, PlanReward
from kernelrl.grpo.reward_function import RewardFunction, SharedRewardFunction
from kernelrl.grpo.rollout import Rollout, Turns, check_turns
from kernelrl.grpo.shared_policy import context_of
from kernelrl.grpo.trainer import REWARD_LOW, KernelGRPOTrainer
from kernelrl.grpo.turns_trainer import TurnsGRPOTrainer
from kernelrl.policies import backends, models
from kernelrl.policies.prompts import Reasoning, to_text
from kernelrl.policies.settings import ModelSettings
from kernelrl.policies.verifier import Verifier
from kernelrl.records import Ledger, digest
from kernelrl.rewards import Reward, make_reward
from kernelrl.stage_folder import LOG, is_main_rank, open_stage, read_log
from kernelrl.strategies import make_strategy
from kernelrl.strategies.archive import Archive
from kernelrl.task import Task
from kernelrl.training import ranks, tracking
from kernelrl.training.checkpoints import StageCallback, prepare, save_final, show_progress, train
from kernelrl.training.extending import deciding, is_finished
from kernelrl.training.finite import FiniteCallback
from kernelrl.training.lengths import keep_short_prompts
from kernelrl.training.rates import read_rates
from kernelrl.training.seals import CHECKPOINTS, FINAL, digests, last_checkpoint

COLUMNS = ("task_id", "prompt", "task")
CURRICULUM_COLUMNS = ("difficulty", "category")
BEST: dict[str, Any] = {"metric_for_best_model": f"eval_{REWARD_LOW}", "greater_is_better": True}
"""What makes the trainer keep the checkpoint that is best on the held-out tasks."""

log = logging.getLogger(__name__)


def run(cfg: DictConfig) -> Path:
    """Train, or go on from the last whole checkpoint. Returns the stage folder.

    Raises:
        UserError: no tasks, missing columns, no policy, no disk space, unknown reward.
    """
    tasks_file = Path(cfg.grpo.data) / TASKS_TRAIN
    rows = read_table(tasks_file, COLUMNS if cfg.get("curriculum") is None else [*COLUMNS, *CURRICULUM_COLUMNS])
    heldout = _read_validation(cfg)
    revision = cfg.model.get("revision") if cfg.grpo.policy == cfg.model.get("name") else None
    policy_folder = models.find_policy(cfg.grpo.policy, revision)
    reward = make_reward(cfg.reward)
    references = read_references(Path(cfg.grpo.references), needed="similarity" in reward.measures)
    adapter = models.make_adapter(cfg.grpo.peft)
    model_settings = read_node(ModelSettings, cfg.model, "model")
    models.check_quantization(model_settings, adapter, "grpo")
    strategy = make_strategy(cfg.strategy)
    through = None if strategy.name == "single" else strategy
    rates = read_rates(cfg.grpo.rates)
    turns = read_node(Turns, cfg.grpo.turns, "grpo.turns")
    groups = read_node(GroupSettings, cfg.grpo.groups, "grpo.groups")
    adjust = read_node(Adjust, cfg.grpo.adjust, "grpo.adjust")
    if adjust.overlong is not None and adjust.overlong >= cfg.grpo.trainer.max_completion_length:
        raise UserError(
            f"grpo.adjust.overlong={adjust.overlong}: give fewer tokens than grpo.trainer.max_completion_length "
            f"({cfg.grpo.trainer.max_completion_length}), or every completion is punished for its length"
        )
    curriculum_settings = None
    if "curriculum" in cfg:
        curriculum_settings = read_node(CurriculumSettings, cfg.curriculum, "curriculum")
    if reward.plan is not None and turns.baseline != "group":
        raise UserError(
            f"grpo.turns.baseline={turns.baseline}: a reward with a plan of its own compares in groups; leave it out"
        )
    others = {str(role): backends.read_settings(each, f"policies.{role}") for role, each in cfg.policies.items()}
    if through is not None:
        check_turns(through, turns, cfg.grpo.trainer, reward.plan is not None, list(others))
        if heldout:
            raise UserError(
                f"grpo.trainer.eval_strategy={cfg.grpo.trainer.eval_strategy}: not with strategy={through.name}; "
                f"leave it out, and evaluate by kernelrl eval strategy={through.name}"
            )
    asynchronously = None
    if cfg.grpo.asynchronous is not None:
        asynchronously = read_node(asynchronous.Asynchronous, cfg.grpo.asynchronous, "grpo.asynchronous")
        asynchronous.check(cfg, asynchronously)
    settings = {
        "seed": cfg.seed,
        "model": model_settings.deciding,
        "max_prompt_length": cfg.grpo.max_prompt_length,
        "dialect": cfg.dialect,
        "policy": digests(policy_folder),
        "data": digest(tasks_file),
        "reward": cfg.reward,
        "verifier": cfg.verifier.model if "verifier" in cfg else None,
        "executor": deciding_settings(to_dict(cfg.executor)),
        "trainer": cfg.grpo.trainer,
        "peft": cfg.grpo.peft,
        "rates": [list(each) for each in rates.items()] or None,  # their order decides
        "max_staleness": asynchronously and asynchronously.max_staleness,
        "strategy": None if through is None else cfg.strategy,
        "turns": cfg.grpo.turns,
        "policies": {role: each.identity for role, each in others.items()},
        "groups": cfg.grpo.groups,
        "adjust": cfg.grpo.adjust,
        "curriculum": cfg.get("curriculum"),
    }
    with open_stage("grpo", cfg.grpo.folder, settings, deciding=deciding) as stage:
        if is_finished(stage, cfg.grpo.trainer.max_steps):
            return stage.path
        start = _make_start(policy_folder, stage.path / "start", model_settings)
        if asynchronously is not None:
            asynchronous.run(cfg, asynchronously, stage, start, rows, model_settings, adapter)
            return stage.path
        arguments = GRPOConfig(
            **tracking.start(cfg, "grpo")
            | (BEST if heldout else {})
            | ranks.trainer_fields("grpo", cfg.grpo.trainer, cfg.parallel),
            output_dir=str(stage.path / CHECKPOINTS),
            seed=cfg.seed,
            chat_template_kwargs=model_settings.chat_template_kwargs,
            trust_remote_code=model_settings.trust_remote_code,
            reward_weights=[1.0, reward.plan.weight] if reward.plan else None,
        )
        groups.check(arguments)
        # after the arguments: they say how the ranks share it
        model, tokenizer = models.load_policy(start, models.training_dtype(adapter), model_settings, adapter)
        reasoning = Reasoning.of(tokenizer, model_settings)
        rows = keep_short_prompts(rows, tokenizer, model_settings, cfg.grpo.max_prompt_length)
        if heldout:
            short = keep_short_prompts(
                heldout, tokenizer, model_settings, cfg.grpo.max_prompt_length, what="held-out tasks"
            )
            heldout = short[: cfg.grpo.validation.num_tasks]
        length = None if through is None else context_of(model.config, arguments)
        if length is not None:  # longer ones would be refused
            room = length - cfg.grpo.trainer.max_completion_length
            name = f"grpo.trainer.max_completion_length={cfg.grpo.trainer.max_completion_length}, room for a prompt"
            rows = keep_short_prompts(rows, tokenizer, model_settings, room, name)
        curriculum = None if curriculum_settings is None else Curriculum(curriculum_settings, rows, cfg.seed)
        with contextlib.ExitStack() as stack:
            reward_function, playing, repeated = None, {}, 0
            if is_main_rank():
                ledger = Ledger(stage.path / "records")
                repeated = _set_aside_repeated(ledger, last_checkpoint(stage.path / CHECKPOINTS))
                kind = RewardFunction if through is None else AttemptRewardFunction
                reward_function = _make_reward_function(cfg, stack, kind, reward, ledger, references, reasoning)
                reward_function.adjust, reward_function.curriculum = adjust, curriculum
                for role, each in others.items():
                    opened = backends.open_policy(each, model_settings, f"policies.{role}")
                    playing[role] = stack.enter_context(contextlib.closing(opened))
            rollout = None
            if through is not None:
                tasks = {to_text(row["prompt"]): Task.model_validate_json(row["task"]) for row in rows}
                archive = Archive(stage.path / "archive", turns.archive_capacity, _heldout(Path(cfg.grpo.data)))
                if is_main_rank():
                    archive.forget(lambda exemplar: _step_of(exemplar.id) >= repeated)
                    if turns.archive is not None and not repeated:
                        archive.inherit(Archive(turns.archive, turns.archive_capacity), tasks.values(), cfg.dialect)
                rollout = Rollout(through, turns, tasks, reward_function, cfg.seed, archive, reasoning, playing)
                if isinstance(reward_function, AttemptRewardFunction):
                    reward_function.rollout = rollout
            shared = SharedRewardFunction(reward_function, reasoning)
            finite = FiniteCallback(stage.path)
            callbacks = [StageCallback(stage.path / LOG), AlarmCallback(stage.path / LOG), finite]
            choice = GroupChoice(groups, rows, curriculum, cfg.seed)
            trainer: KernelGRPOTrainer = (HierarchicalGRPOTrainer if reward.plan else TurnsGRPOTrainer)(
                model=model,
                reward_funcs=[shared, PlanReward(shared)] if reward.plan else shared,
                args=arguments,
                train_dataset=datasets.Dataset.from_list(rows),
                eval_dataset=datasets.Dataset.from_list(heldout) if heldout else None,
                processing_class=tokenizer,
                peft_config=adapter,
                callbacks=[GroupChoiceCallback(choice), *callbacks],
                rollout_func=rollout,
            )
            if isinstance(trainer, TurnsGRPOTrainer):
                trainer.baseline = turns.baseline
            if curriculum is not None or groups.replaces_groups:
                trainer.groups = choice
            if (checkpoint := ranks.from_main(lambda: last_checkpoint(stage.path / CHECKPOINTS))) is not None:
                choice.load(checkpoint)
            trainer.rates = rates
            finite.watch(trainer)
            prepare(trainer, stage.path, start)

            def save() -> None:
                save_final(trainer, start, stage.path / FINAL, model_settings)
                seconds = read_log(stage.path / LOG)[-1]["seconds"]
                best = {"best_step": trainer.state.best_global_step, "best_reward_low": trainer.state.best_metric}
                figures = {"steps": trainer.state.global_step, "tasks": len(rows), "seconds": seconds}
                stage.finish(figures | (best if heldout else {}))

            with show_progress(trainer, "grpo", ["reward", "correct"]):
                train(trainer, stage.path, save)
        return stage.path


def _heldout(data: Path) -> frozenset[str]:
    """Digests of the tasks that are kept apart for evaluation."""
    file = data / TASKS_HELDOUT
    rows = iterate_table(file, ["task"]) if file.exists() else ()
    return frozenset(Task.model_validate_json(row["task"]).digest for row in rows)


def _read_validation(cfg: DictConfig) -> list[dict[str, Any]]:
    """Held-out tasks, of which some are validated on; empty where the trainer is not asked to."""
    if cfg.grpo.trainer.get("eval_strategy", "no") == "no":
        return []
    return read_table(Path(cfg.grpo.validation.tasks), COLUMNS)


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
    kind: type[RewardFunction],
    reward: Reward,
    ledger: Ledger,
    references: dict[str, list[str]],
    reasoning: Reasoning,
) -> RewardFunction:
    """The reward function, with an executor and a verifier that end with the stack."""
    executor = stack.enter_context(make_executor(to_dict(cfg.executor)))
    stack.enter_context(Heartbeat(executor, ledger.folder.parent))
    verifier = stack.enter_context(contextlib.closing(Verifier(cfg.verifier))) if "verifier" in cfg else None
    return kind(
        executor,
        reward,
        ledger,
        cfg.dialect,
        cfg.name,
        references,
        verifier,
        reasoning,
        max_tokens=cfg.grpo.trainer.max_completion_length,
    )


def _step_of(exemplar: str) -> int:
    """The step that wrote a kernel of the archive; -1: it is of another stage."""
    stage, step = exemplar.split("/")[:2]
    return int(step) if stage == "grpo" else -1


def _set_aside_repeated(ledger: Ledger, checkpoint: Path | None) -> int:
    """Move the records of the steps after the checkpoint out of the ledger: those steps are about to be repeated.

    Returns:
        The first of these steps.
    """
    step = int(checkpoint.name.split("-")[1]) if checkpoint else 0
    moved = ledger.set_aside(lambda record: record.step >= step)
    if moved:
        log.warning(f"{ledger.folder}: {moved} record(s) of step {step} and later set aside; those steps are repeated")
    return step
