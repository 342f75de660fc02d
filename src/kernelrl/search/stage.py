"""The search stage: run a strategy on tasks within a budget, and keep the best kernel of each.

The stage folder holds `best/` (a file per task), `results.json`, `search.html`, `records/` (every attempt with its
verdict), `answers.jsonl` (every answer of a policy) and `archive/`. A larger budget goes on from there.
"""

from __future__ import annotations

import hashlib
import json
import logging
import random
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Literal

from omegaconf import DictConfig
from pydantic import BaseModel, ConfigDict, PositiveInt

from kernelrl import __version__
from kernelrl.configs import read_node, to_dict
from kernelrl.console import make_console, track
from kernelrl.data import sources
from kernelrl.data.rows import task_row
from kernelrl.data.tables import read_table
from kernelrl.errors import UserError
from kernelrl.eval.provenance import git_version, package_versions
from kernelrl.executor import Executor, make_executor
from kernelrl.executor.api import deciding_settings
from kernelrl.executor.engines.health import Heartbeat
from kernelrl.policies import backends
from kernelrl.policies.backends.settings import LocalSettings, Settings
from kernelrl.policies.prompts import Message
from kernelrl.policies.protocol import Policy
from kernelrl.policies.settings import ModelSettings
from kernelrl.records import Ledger, write_atomically, write_json
from kernelrl.rewards import make_reward
from kernelrl.search import figures, page
from kernelrl.search.screen import ScreenSettings, SurrogateScreen, make_table
from kernelrl.stage_folder import open_stage, read_figures
from kernelrl.strategies import make_strategy, runner
from kernelrl.strategies.archive import Archive
from kernelrl.strategies.budget import Budget
from kernelrl.strategies.journal import Journal
from kernelrl.strategies.protocol import CODER, Problem, Strategy
from kernelrl.task import Task

BEFORE = "archive_before"
"""Folder with what an archive of another run held when this one began: a resumed run sees the same."""

log = logging.getLogger(__name__)


class ArchiveSettings(BaseModel):
    """Where kernels are kept for strategies that show them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    folder: Path
    """May be that of another run, and shared by several."""
    capacity: PositiveInt
    """Kernels that are kept of each task."""


class SearchSettings(BaseModel):
    """The node `search` of the config (`configs/search`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    folder: Path
    model: Path
    """The policy where `policy.model` names none."""
    tasks: Path | None
    """Parquet file with the columns `task` and `prompt`; None: all tasks of the source."""
    limit: PositiveInt | None
    """Only the first so many tasks; None: all."""
    budget: Budget
    repeat: bool
    """Start a strategy that has nothing more to ask anew, until the budget is spent."""
    concurrency: PositiveInt
    """Tasks that are worked on at a time."""
    max_prompt_chars: PositiveInt | None
    """Length of a conversation beyond which earlier turns and exemplars are left out, beside the context of the policy;
    None: no such limit."""
    archive: ArchiveSettings
    filter: Literal["surrogate"] | None
    """Who refuses candidates before they are judged; None: nobody."""
    surrogate: ScreenSettings
    """What `search.filter=surrogate` does."""


def run(cfg: DictConfig) -> Path:
    """Search, or go on where a search was killed or its budget ended. Returns `results.json`.

    Raises:
        UserError: the settings, the tasks or a policy cannot be used; raised before anything is asked.
    """
    settings = check_settings(cfg)
    strategy = make_strategy(cfg.strategy)
    screen = SurrogateScreen(settings.surrogate) if settings.filter else None
    rows = _read_tasks(cfg, settings)
    sampling = _read_policies(cfg, settings, strategy)
    asked = _what_decides(cfg, rows, sampling)
    path = settings.folder / page.RESULTS
    with open_stage("search", settings.folder, asked) as stage:
        budget = settings.budget.model_dump()
        if not stage.done or read_figures(stage.path).get("budget") != budget:
            write_json(path, _search(cfg, settings, strategy, screen, rows, sampling))
            stage.finish({"budget": budget})
    results = _read(path)
    page.write(settings.folder / page.PAGE, cfg.name, {strategy.name: results})
    make_console().print(page.make_task_table(results))
    if results["filter"] is not None:
        make_console().print(make_table(results["filter"]))
    return path


def check_settings(cfg: DictConfig) -> SearchSettings:
    """The settings of the stage.

    Raises:
        UserError: names the value that cannot be used.
    """
    settings = read_node(SearchSettings, cfg.search, "search")
    strategy = make_strategy(cfg.strategy)
    if settings.repeat and not settings.budget.limited:
        raise UserError(
            "search.budget: there is no limit, and search.repeat=true would never end; "
            "set one, e.g. search.budget.candidates=16"
        )
    if unknown := set(cfg.policies) - set(strategy.roles):
        raise UserError(
            f"policies.{min(unknown)}: strategy {strategy.name} asks no such role; it has {', '.join(strategy.roles)}"
        )
    if missing := set(strategy.needs) - set(cfg.policies):
        raise UserError(
            f"strategy {strategy.name} needs a policy for the role {min(missing)!r}; "
            f"add +policy@policies.{min(missing)}=transformers policies.{min(missing)}.model=…"
        )
    return settings


def _read_tasks(cfg: DictConfig, settings: SearchSettings) -> list[dict[str, Any]]:
    """The rows to search for, `task` and `prompt`."""
    if settings.tasks is not None:
        rows = read_table(settings.tasks, ("task", "prompt"))
    else:
        rows = [task_row(task, cfg.dialect, cfg.prompt.style, None) for task in sources.load_all(cfg.tasks)]
    return rows[: settings.limit]


def _read_policies(cfg: DictConfig, settings: SearchSettings, strategy: Strategy) -> dict[str, Settings]:
    """How the policy of each role is sampled."""
    node = to_dict(cfg.policy)
    if node["model"] is None and node["backend"] != "endpoint":
        node["model"] = str(settings.model)
    found = {CODER: backends.read_settings(node, "policy")}
    return found | {str(role): backends.read_settings(each, f"policies.{role}") for role, each in cfg.policies.items()}


def _what_decides(cfg: DictConfig, rows: list[dict[str, Any]], sampling: Mapping[str, Settings]) -> dict[str, Any]:
    """All that decides what is asked and how it is judged, the budget apart."""
    from kernelrl.policies.models import find_policy
    from kernelrl.training.seals import digests

    policies = {
        role: each.identity
        | ({"digests": digests(find_policy(each.model, each.revision))} if isinstance(each, LocalSettings) else {})
        for role, each in sampling.items()
    }
    return {
        "strategy": cfg.strategy,
        "surrogate": read_node(ScreenSettings, cfg.search.surrogate, "search.surrogate").identity
        if cfg.search.filter
        else None,
        "policies": policies,
        "tasks": hashlib.sha256(repr([(row["task"], row["prompt"]) for row in rows]).encode()).hexdigest(),
        "repeat": cfg.search.repeat,
        "max_prompt_chars": cfg.search.max_prompt_chars,
        "archive_capacity": cfg.search.archive.capacity,
        "dialect": cfg.dialect,
        "seed": cfg.seed,
        "model": read_node(ModelSettings, cfg.model, "model").deciding,
        "reward": cfg.reward,
        "executor": deciding_settings(to_dict(cfg.executor)),
    }


def _search(
    cfg: DictConfig,
    settings: SearchSettings,
    strategy: Strategy,
    screen: SurrogateScreen | None,
    rows: list[dict[str, Any]],
    sampling: Mapping[str, Settings],
) -> dict[str, Any]:
    problems = _make_problems(cfg, settings, rows)
    outcomes: dict[str, runner.Outcome] = {}
    archive = Archive(settings.archive.folder, settings.archive.capacity)
    with _open(cfg, settings, sampling) as (policies, executor), track(len(problems), "search") as progress:
        setting = runner.Setting(
            strategy=strategy,
            policies=policies,
            names={role: Path(each.model).name for role, each in sampling.items()},
            executor=executor,
            reward=make_reward(cfg.reward),
            budget=settings.budget,
            seed=cfg.seed,
            repeat=settings.repeat,
            concurrency=settings.concurrency,
            screen=screen,
            resumable=True,
        )
        journal, ledger = Journal(settings.folder / "answers.jsonl"), Ledger(settings.folder / "records")
        for outcome in runner.run(setting, problems, journal, ledger):
            task = outcome.problem.task
            outcomes[task.id] = outcome
            archive.add(task, [each.exemplar for each in outcome.attempts if each.exemplar is not None])
            if outcome.best is not None:
                file = settings.folder / "best" / f"{task.id.replace('/', '_')}.py"
                write_atomically(file, outcome.best.completion.source or "")
            progress.advance(note=f"{sum(each.best is not None for each in outcomes.values())} solved")
    ordered = [outcomes[problem.task.id] for problem in problems]
    tasks = {outcome.problem.task.id: figures.task_figures(outcome) for outcome in ordered}
    return {
        "name": cfg.name,
        "seed": cfg.seed,
        "strategy": to_dict(cfg.strategy),
        "policies": {role: each.model for role, each in sampling.items()},
        "budget": settings.budget.model_dump(),
        "estimates": page.summarize(tasks, cfg.seed),
        "spent": figures.totals(ordered),
        "tasks": tasks,
        "curve": figures.curve(ordered),
        "filter": None if screen is None else screen.report(ordered),
        "version": __version__,
        "git": git_version(),
        "packages": package_versions(),
    }


def _make_problems(cfg: DictConfig, settings: SearchSettings, rows: list[dict[str, Any]]) -> list[Problem]:
    """The tasks as the strategy sees them, each with what the archive held of it when the search began."""
    capacity = settings.archive.capacity
    shared, before = Archive(settings.archive.folder, capacity), Archive(settings.folder / BEFORE, capacity)
    began = (settings.folder / "answers.jsonl").exists()
    most = settings.max_prompt_chars

    def fits(messages: list[Message]) -> bool:
        return most is None or sum(len(message["content"]) for message in messages) <= most

    problems = []
    for row in rows:
        task = Task.model_validate_json(row["task"])
        if not began:
            before.add(task, [each for each in shared.of(task) if each.verdict.dialect == cfg.dialect])
        problems.append(
            Problem(
                id=f"search/{task.id}",
                task=task,
                dialect=cfg.dialect,
                prompt=row["prompt"],
                rng=random.Random(f"{cfg.seed}/{task.id}"),
                archive=before.of(task),
                fits=fits,
            )
        )
    return problems


@contextmanager
def _open(
    cfg: DictConfig, settings: SearchSettings, sampling: Mapping[str, Settings]
) -> Iterator[tuple[dict[str, Policy], Executor]]:
    """The policies by role, and the executor."""
    model = read_node(ModelSettings, cfg.model, "model")
    with ExitStack() as stack:
        executor = stack.enter_context(make_executor(to_dict(cfg.executor)))
        stack.enter_context(Heartbeat(executor, settings.folder))
        policies: dict[str, Policy] = {}
        for role, each in sampling.items():
            name = "policy" if role == CODER else f"policies.{role}"
            policies[role] = stack.enter_context(closing(backends.open_policy(each, model, name)))
        yield policies, executor


def _read(path: Path) -> dict[str, Any]:
    results: dict[str, Any] = json.loads(path.read_text())
    return results
