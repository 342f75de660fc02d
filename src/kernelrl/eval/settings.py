"""The node `eval` of the config: what is asked of an evaluation, and what of it decides its samples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from omegaconf import DictConfig
from pydantic import BaseModel, ConfigDict, Field

from kernelrl.configs import read_node, to_dict
from kernelrl.errors import UserError
from kernelrl.eval.channels import find_judge, least_samples
from kernelrl.eval.ready import ReadySettings, RecordedSettings
from kernelrl.executor.api import deciding_settings
from kernelrl.policies import backends
from kernelrl.policies.backends.settings import LocalSettings, Settings
from kernelrl.policies.settings import ModelSettings
from kernelrl.strategies import make_strategy
from kernelrl.strategies.protocol import Strategy
from kernelrl.task import Task

ANSWERS = "answers"
"""Folder of what a server has answered and what is not in the records yet."""
NOT_DECIDING = {
    "folder",
    "tasks",
    "references",
    "policies",
    "backend",
    "channel",
    "k",
    "fast_p",
    "bootstrap",
    "part",
    "parts",
    "story",
}
"""Settings that a finished evaluation may change without sampling again; tasks and policies count by content."""
PositiveInt = Annotated[int, Field(ge=1)]
PolicySettings = Settings | ReadySettings | RecordedSettings
"""How one policy is sampled."""


class StorySettings(BaseModel):
    """The node `eval.story`: the last policy works on some tasks over turns, for the report to tell."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    strategy: dict[str, Any]
    """A node of `configs/strategy`."""
    tasks: PositiveInt
    """How many, the first ones; each as often as the evaluation samples a task."""


class EvalSettings(BaseModel):
    """The node `eval` of the config (`configs/eval`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    folder: Path
    """Gets one folder per policy."""
    tasks: Path | None
    """Parquet file with the columns `task` (JSON of a Task) and `prompt` (messages); None: all tasks of the source."""
    references: Path | None = None
    """Parquet file of right kernels for these tasks (columns task_id, kernel), for rewards that compare with them."""
    policies: dict[Annotated[str, Field(pattern=r"^\w[\w.-]*$")], str | dict[str, Any]] = Field(min_length=1)
    """Name -> folder of a model or an adapter, hub id, or node of a policy; each is compared with the one before."""
    backend: str
    """That samples folders and hub ids."""
    limit: PositiveInt | None = None
    """Only the first so many tasks, to try something out; the results say that they are partial. None: all."""
    samples: PositiveInt
    """Completions per task."""
    temperature: float = Field(ge=0)
    top_p: float = Field(gt=0, le=1)
    max_new_tokens: PositiveInt
    batch_size: PositiveInt
    """Completions that are generated at a time; so many, but whole groups, are judged and written together."""
    k: tuple[PositiveInt, ...]
    """Values of k for pass@k."""
    fast_p: tuple[Annotated[float, Field(ge=0)], ...]
    """Speedup thresholds."""
    kernelbench_run: bool = False
    """Write each policy's samples as a run folder of KernelBench's too."""
    channel: str | None = None
    """Whose figures are computed too (`eval/channels`); None: those of every evaluation alone."""
    story: StorySettings | None = None
    """None: the report tells turns only where the evaluation itself has some."""
    bootstrap: PositiveInt
    """Number of resamples of the intervals."""
    part: Annotated[int, Field(ge=0)] | None = None
    """Which of `parts` processes this is, from 0, that share the sampling; None: sample all, compare and report."""
    parts: PositiveInt = 1


def read_settings(node: DictConfig) -> EvalSettings:
    """The settings of the stage.

    Raises:
        UserError: names the value that cannot be used.
    """
    settings = read_node(EvalSettings, node, "eval")
    if max(settings.k, default=1) > settings.samples:
        raise UserError(
            f"eval.k={list(settings.k)}: pass@{max(settings.k)} needs as many samples per task, "
            f"but eval.samples={settings.samples}; raise eval.samples or lower eval.k"
        )
    if settings.channel is not None and settings.samples < (least := least_samples(settings.channel)):
        raise UserError(
            f"eval.channel={settings.channel}: its figures are of {least} samples per task, but "
            f"eval.samples={settings.samples}; give eval.samples={least} or eval.channel=null"
        )
    return settings


def check_settings(node: DictConfig) -> EvalSettings:
    """The settings of the stage, whose policies are there.

    Raises:
        UserError: names the value that cannot be used, or the policy that is not there.
    """
    from kernelrl.policies.models import find_policy  # torch and transformers: seconds that a report need not wait for

    settings = read_settings(node)
    for name in settings.policies:
        policy = policy_settings(settings, name)
        try:
            if isinstance(policy, LocalSettings):
                find_policy(policy.model, policy.revision)
        except UserError as error:
            raise UserError(f"eval.policies.{name}: {error}; or leave it out with ~eval.policies.{name}") from None
    return settings


def policy_settings(settings: EvalSettings, name: str) -> PolicySettings:
    """How the policy of that name is sampled: as the evaluation is, but for what its own node says.

    A server's answers are kept until they are judged: they are paid for.
    """
    policy = settings.policies[name]
    node = {"model": policy, "backend": settings.backend} if isinstance(policy, str) else policy
    where = f"eval.policies.{name}"
    if node.get("backend") == "kernels":
        return read_node(ReadySettings, node, where)
    if node.get("backend") == "records":
        return read_node(RecordedSettings, node, where)
    defaults = backends.defaults(str(node.get("backend")), where)
    shared = {name: getattr(settings, name) for name in ("temperature", "top_p", "max_new_tokens", "batch_size")}
    shared |= {"cache_dir": settings.folder / name / ANSWERS} if node["backend"] == "endpoint" else {}
    return backends.read_settings(defaults | {key: shared[key] for key in shared if key in defaults} | node, where)


def read_strategy(cfg: DictConfig, settings: EvalSettings, tasks: Sequence[Task]) -> Strategy:
    """The strategy of the evaluation.

    Raises:
        UserError: it cannot be used, needs several policies, asks one that only has finished kernels, or for a kernel
            that has to serve several tasks.
    """
    strategy = make_strategy(cfg.strategy)
    if strategy.needs or cfg.policies:
        raise UserError(f"eval strategy={strategy.name}: every policy plays all roles here; leave out policies.*")
    if strategy.name != "single":
        if program := next((task.case_of for task in tasks if task.case_of), None):
            raise UserError(
                f"eval strategy={strategy.name}: one kernel has to serve all cases of {program}, and a strategy hears "
                "of one case at a time; use strategy=single"
            )
        if settings.channel is not None and find_judge(settings.channel) is not None:
            raise UserError(f"eval.channel={settings.channel}: has no kernels to refine; use strategy=single")
        for name in settings.policies:
            if isinstance(policy_settings(settings, name), ReadySettings | RecordedSettings):
                raise UserError(
                    f"eval strategy={strategy.name}: eval.policies.{name} holds finished kernels, which answer no "
                    "further question; use strategy=single"
                )
    return strategy


def read_story(cfg: DictConfig, settings: EvalSettings, tasks: Sequence[Task]) -> Strategy | None:
    """The strategy of the story; None: none is wanted, or there is nobody to hear what became of a kernel.

    Raises:
        UserError: it cannot be used, or needs several policies.
    """
    if settings.story is None:
        return None
    strategy = make_strategy(cfg.eval.story.strategy)
    if strategy.needs or cfg.policies:
        raise UserError(f"eval.story.strategy={strategy.name}: the last policy plays all roles; leave out policies.*")
    last = policy_settings(settings, list(settings.policies)[-1])
    answers_once = isinstance(last, ReadySettings | RecordedSettings) or any(task.case_of for task in tasks)
    no_kernels = settings.channel is not None and find_judge(settings.channel) is not None
    return None if answers_once or no_kernels else strategy


def what_decides(cfg: DictConfig, settings: EvalSettings, tasks_digest: str) -> dict[str, Any]:
    """All that decides what is sampled and how it is judged, the policies apart; not which figures are made of it."""
    return {
        "eval": settings.model_dump(mode="json", exclude=NOT_DECIDING),
        "tasks": tasks_digest,
        "dialect": cfg.dialect,
        "seed": cfg.seed,
        "model": read_node(ModelSettings, cfg.model, "model").deciding,
        "reward": cfg.reward,
        "verifier": cfg.verifier.model if "verifier" in cfg else None,
        "executor": deciding_settings(to_dict(cfg.executor)),
        "strategy": None if cfg.strategy.name == "single" else cfg.strategy,
    }


def policy_identity(settings: EvalSettings, policy: PolicySettings) -> dict[str, Any]:
    """What decides a policy's samples: the content of its folder, and how it is sampled otherwise than the others."""
    from kernelrl.policies.models import find_policy
    from kernelrl.training.seals import digests

    if not isinstance(policy, LocalSettings):
        return {"policy": policy.identity}
    shared = settings.model_dump() | {"backend": "transformers", "model": policy.model, "revision": policy.revision}
    own = {key: value for key, value in policy.identity.items() if key not in shared or value != shared[key]}
    return {"policy": digests(find_policy(policy.model, policy.revision))} | ({"sampling": own} if own else {})
