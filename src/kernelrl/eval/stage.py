"""The eval stage: sample every policy on the held-out tasks, judge, record, and write the figures."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from omegaconf import DictConfig, OmegaConf

from kernelrl import __version__
from kernelrl.configs import read_node, to_dict
from kernelrl.console import make_console
from kernelrl.data import sources
from kernelrl.data.rows import task_row
from kernelrl.data.tables import TASK_COLUMNS, read_references, read_table, write_table
from kernelrl.errors import UserError
from kernelrl.eval import checkpoints, kernelbench, kernelbench_export, metrics, rejudge, trajectories
from kernelrl.eval.channels import check_tasks, find_figures, find_judge
from kernelrl.eval.figure import Settings, program_of
from kernelrl.eval.provenance import git_version, package_versions
from kernelrl.eval.results import SCHEMA_VERSION, Partial, TaskEntry
from kernelrl.eval.sampling import Work, sample_and_judge
from kernelrl.eval.settings import (
    ANSWERS,
    EvalSettings,
    check_settings,
    policy_identity,
    policy_settings,
    read_story,
    read_strategy,
    what_decides,
)
from kernelrl.eval.table import make_table, make_turn_table
from kernelrl.executor import make_executor
from kernelrl.executor.api import Executor, deciding_settings
from kernelrl.executor.engines.health import Heartbeat
from kernelrl.policies.settings import ModelSettings
from kernelrl.records import Ledger, Record, digest, write_json
from kernelrl.rewards import make_reward
from kernelrl.stage_folder import is_done, open_stage, read_figures
from kernelrl.task import Task
from kernelrl.training import tracking

if TYPE_CHECKING:  # seconds that a report need not wait for
    from kernelrl.policies.verifier import Verifier

METRICS = "metrics.json"
RESULTS = "results.json"
RECORDS = "records"
STORY = "story"
"""Folder of a policy's attempts that the report tells (`eval.story`)."""
TABLE = pa.schema([TASK_COLUMNS.field(name) for name in ("task", "prompt")])
"""What an evaluation reads of each task, and keeps (`rejudge.TASKS`)."""


def run(cfg: DictConfig) -> Path:
    """Evaluate every policy of `cfg.eval.policies`, compare each with the one before, and print the table.

    Idempotent and resumable: a finished policy is not sampled again, an interrupted one goes on with the samples that
    are missing. The figures are computed from the records each time.

    Returns:
        `results.json` in the output folder: every figure of every policy and every comparison, with intervals.

    Raises:
        UserError: the settings, the task file or a policy folder cannot be used; raised before anything is sampled.
    """
    if "import" in cfg:
        return kernelbench.run(cfg)
    if cfg.rejudge is not None and cfg.checkpoints is not None:
        raise UserError("rejudge and checkpoints exclude each other: one samples nothing, the other checkpoints")
    if cfg.rejudge is not None:
        cfg = rejudge.prepare(cfg)
    if cfg.checkpoints is not None:
        cfg = checkpoints.prepare(cfg)
    settings = check_settings(cfg.eval)
    path = Path(cfg.output_dir) / RESULTS
    _check_place(path, settings.folder)
    reward = make_reward(cfg.reward)
    every_row, tasks_digest, source_skipped = _read_tasks(cfg, settings)
    every_task = [Task.model_validate_json(row["task"]) for row in every_row]
    wanted = {program_of(task) for task in every_task[: settings.limit]}  # a program with all its cases
    tasks = [task for task in every_task if program_of(task) in wanted]
    if settings.channel is not None:
        check_tasks(settings.channel, tasks)
    if settings.kernelbench_run:
        kernelbench_export.find_problems(tasks)
    prompts = {task.id: row["prompt"] for task, row in zip(every_task, every_row, strict=True)}
    to_compute = Settings(
        k=settings.k,
        fast_p=settings.fast_p,
        bootstrap=settings.bootstrap,
        seed=cfg.seed,
        compiled=cfg.executor.compile_baseline is not None,
        extra=None if settings.channel is None else find_figures(settings.channel),
    )
    asked = what_decides(cfg, settings, tasks_digest)
    model = read_node(ModelSettings, cfg.model, "model")
    strategy = read_strategy(cfg, settings, tasks)
    story = read_story(cfg, settings, tasks)
    references = read_references(settings.references, needed="similarity" in reward.measures)
    make_work = partial(
        Work,
        settings=settings,
        tasks=tasks,
        prompts=prompts,
        dialect=cfg.dialect,
        seed=cfg.seed,
        reward=reward,
        references=references,
        model=model,
        strategy=strategy,
        judge=None if settings.channel is None else find_judge(settings.channel),
    )
    if settings.part is not None:
        with _open_judges(cfg, settings) as (executor, verifier):
            return _run_part(make_work(executor=executor, verifier=verifier), asked)
    records: dict[str, list[Record]] = {}
    summaries: dict[str, Any] = {}
    with (
        open_stage("eval", settings.folder, asked) as stage,
        _open_judges(cfg, settings) as (executor, verifier),
    ):
        work = make_work(executor=executor, verifier=verifier)
        for name in settings.policies:
            policy = policy_settings(settings, name)
            with open_stage(
                f"eval of {name}", settings.folder / name, asked | policy_identity(settings, policy)
            ) as part:
                ledger = Ledger(part.path / RECORDS)
                if not part.done:
                    part.finish(sample_and_judge(work, name, policy, ledger) | _provenance(cfg))
                    shutil.rmtree(part.path / ANSWERS, ignore_errors=True)  # the records have them
                records[name] = list(ledger)
                if settings.kernelbench_run:
                    kernelbench_export.export(records[name], tasks, part.path / "kernelbench")
                figures = metrics.summarize(records[name], tasks, to_compute)
                summaries[name] = {"policy": name, "folder": policy.model, **figures, **read_figures(part.path)}
                summaries[name]["seconds_per_solved"] = _seconds_per_solved(summaries[name])
                if turns := trajectories.by_turn(records[name], tasks, to_compute):
                    summaries[name]["turns"] = turns
                write_json(part.path / METRICS, summaries[name])
        if settings.story is not None and story is not None:
            _work_on_story(replace(work, strategy=story, tasks=tasks[: settings.story.tasks]), name, asked)
        names = list(summaries)
        comparisons = [
            {"after": after, "before": before}
            | {"figures": metrics.compare(records[after], records[before], tasks, to_compute)}
            for before, after in zip(names, names[1:], strict=False)
        ]
        results = {
            "schema_version": SCHEMA_VERSION,
            "tasks": [{name: getattr(task, name) for name in TaskEntry.model_fields} for task in tasks],
            "source_skipped": source_skipped,
            "partial": Partial(num=len(tasks), of=len(every_row)).model_dump() if len(tasks) < len(every_row) else None,
            "policies": summaries,
            "comparisons": comparisons,
            **({} if cfg.rejudge is None else {"rejudged": rejudge.changes(Path(cfg.rejudge), records)}),
            **_provenance(cfg),
        }
        kept = settings.folder / rejudge.TASKS
        if not kept.exists():
            write_table(kept, every_row, TABLE)
        write_json(path, results)
        if not stage.done:
            _track(cfg, summaries)
        stage.finish({"policies": names})
    if cfg.checkpoints is not None:
        checkpoints.write(Path(cfg.output_dir), results)
        return path
    console = make_console()
    console.print(make_table(results))
    if any("turns" in summary for summary in summaries.values()):
        console.print(make_turn_table(results))
    if "rejudged" in results:
        console.print(rejudge.make_table(results["rejudged"]))
    return path


def _check_place(path: Path, folder: Path) -> None:
    """Results go beside those of no other evaluation.

    Raises:
        UserError: names the evaluation whose results would be lost.
    """
    earlier = None
    with suppress(FileNotFoundError, json.JSONDecodeError):  # a damaged file is written anew
        earlier = json.loads(path.read_text()).get("eval", {}).get("folder")
    if earlier is not None and Path(earlier).exists() and Path(earlier).resolve() != folder.resolve():
        raise UserError(
            f"eval.folder={folder}: {path} has the results of {earlier}, which would be lost; "
            f"give this evaluation an output_dir of its own"
        )


def _read_tasks(cfg: DictConfig, settings: EvalSettings) -> tuple[list[dict[str, Any]], str, dict[str, int]]:
    """The rows to evaluate on, `task` and `prompt`, a digest of them, and what the source has left out, by reason."""
    if settings.tasks is not None:
        return read_table(settings.tasks, TABLE.names), digest(settings.tasks), {}
    split = sources.load_part(cfg.tasks)
    rows = [task_row(task, cfg.dialect, cfg.prompt.style, None) for task in sources.in_order(split)]
    content = repr([(row["task"], row["prompt"]) for row in rows])
    return rows, hashlib.sha256(content.encode()).hexdigest(), dict(split.skipped)


@contextmanager
def _open_judges(cfg: DictConfig, settings: EvalSettings) -> Iterator[tuple[Executor, Verifier | None]]:
    """The executor, and the model that reads correct kernels where the config names one."""
    with ExitStack() as stack:
        executor = stack.enter_context(make_executor(to_dict(cfg.executor)))
        stack.enter_context(Heartbeat(executor, settings.folder, settings.part or 0))
        verifier = None
        if "verifier" in cfg:
            from kernelrl.policies.verifier import Verifier

            verifier = stack.enter_context(closing(Verifier(cfg.verifier)))
        yield executor, verifier


def _run_part(work: Work, asked: Mapping[str, Any]) -> Path:
    """Sample and judge this process's part of every policy's samples, into a shard of its own. Returns its folder."""
    settings = work.settings
    policies = {name: policy_identity(settings, policy_settings(settings, name)) for name in settings.policies}
    name = f"part{settings.part}of{settings.parts}"
    with open_stage(f"eval, {name}", settings.folder / "parts" / name, {**asked, "policies": policies}) as stage:
        if not stage.done:
            for policy in settings.policies:
                if not is_done(settings.folder / policy):
                    ledger = Ledger(settings.folder / policy / RECORDS, shard=name)
                    sample_and_judge(work, policy, policy_settings(settings, policy), ledger)
            stage.finish({"policies": list(policies)})
        return stage.path


def _work_on_story(work: Work, name: str, asked: Mapping[str, Any]) -> None:
    """Have a policy work on the tasks over turns. Its records lie beside its samples, and are in no figure."""
    settings = work.settings
    policy = policy_settings(settings, name)
    told = {"story": settings.story and settings.story.model_dump()}
    folder = settings.folder / name / STORY
    with open_stage(f"story of {name}", folder, {**asked, **policy_identity(settings, policy), **told}) as stage:
        if not stage.done:
            stage.finish(sample_and_judge(work, name, policy, Ledger(stage.path / RECORDS)))


def _seconds_per_solved(summary: Mapping[str, Any]) -> float | None:
    """Seconds of sampling and judging for each program that a sample solves; None: it solves none, or was resumed."""
    if not summary["num_solved"] or summary.get("num_resumed") != 0:
        return None
    return float(summary["seconds"] / summary["num_solved"])


def _track(cfg: DictConfig, summaries: dict[str, Any]) -> None:
    figures = {
        f"eval/{name}/{figure}": estimate["value"]
        for name, summary in summaries.items()
        for figure, estimate in summary["figures"].items()
        if estimate["value"] is not None
    }
    tracking.log_figures(cfg, "eval", figures)


def _provenance(cfg: DictConfig) -> dict[str, Any]:
    from kernelrl.executor.machine import fingerprint

    return {
        "name": cfg.name,
        "seed": cfg.seed,
        "dialect": cfg.dialect,
        "reward": cfg.reward.name,
        "eval": OmegaConf.to_container(cfg.eval, resolve=True),
        "executor": deciding_settings(to_dict(cfg.executor)),
        "version": __version__,
        "git": git_version(),
        "packages": package_versions(),
        "machine": fingerprint(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
