"""The eval stage: sample every policy on the held-out tasks, judge, record, and write the figures.

Generation and judging take turns on purpose: a kernel timed on a machine that generates at the same time would be timed
wrongly.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from omegaconf import DictConfig, OmegaConf
from pydantic import BaseModel, ConfigDict, Field

from kernelrl import __version__
from kernelrl.candidate import Completion
from kernelrl.configs import read_node, to_dict
from kernelrl.console import make_console, track
from kernelrl.data import sources
from kernelrl.data.build import task_row
from kernelrl.data.tables import read_references, read_table
from kernelrl.errors import UserError
from kernelrl.eval import checkpoints, kernelbench, kernelbench_export, metrics, rejudge, trajectories
from kernelrl.eval.channels import Judge, find_figures, find_judge
from kernelrl.eval.provenance import git_version, package_versions
from kernelrl.eval.ready import ReadyKernels, ReadySettings, RecordedCompletions, RecordedSettings
from kernelrl.eval.results import SCHEMA_VERSION, Partial, TaskEntry
from kernelrl.eval.table import make_table, make_turn_table
from kernelrl.executor import make_executor
from kernelrl.executor.api import Executor, Request, deciding_settings
from kernelrl.executor.engines.health import Heartbeat
from kernelrl.policies import backends
from kernelrl.policies.backends.settings import LocalSettings, Settings
from kernelrl.policies.prompts import Message, to_text
from kernelrl.policies.protocol import Answer, Policy
from kernelrl.policies.settings import ModelSettings
from kernelrl.records import Ledger, Record, digest, write_json
from kernelrl.rewards import Reward, make_reward
from kernelrl.stage_folder import is_done, open_stage, read_figures
from kernelrl.strategies import make_strategy
from kernelrl.strategies.protocol import Strategy
from kernelrl.task import Task
from kernelrl.training import tracking

if TYPE_CHECKING:  # seconds that a report need not wait for
    from kernelrl.policies.verifier import Verifier

METRICS = "metrics.json"
RESULTS = "results.json"
RECORDS = "records"
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
}
"""Settings that a finished evaluation may change without sampling again; tasks and policies count by content."""
PositiveInt = Annotated[int, Field(ge=1)]

log = logging.getLogger(__name__)


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
    bootstrap: PositiveInt
    """Number of resamples of the intervals."""
    part: Annotated[int, Field(ge=0)] | None = None
    """Which of `parts` processes this is, from 0, that share the sampling; None: sample all, compare and report."""
    parts: PositiveInt = 1


@dataclass(frozen=True)
class _Work:
    """What is the same for every policy."""

    settings: EvalSettings
    tasks: list[Task]
    prompts: dict[str, list[Message]]
    dialect: str
    seed: int
    reward: Reward
    references: dict[str, list[str]]
    executor: Executor
    verifier: Verifier | None
    model: ModelSettings
    strategy: Strategy
    judge: Judge | None
    """What judges completions in place of the executor: the channel's, where they are no kernels."""


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
    reward = make_reward(cfg.reward)
    every_row, tasks_digest = _read_tasks(cfg, settings)
    rows = every_row[: settings.limit]
    tasks = [Task.model_validate_json(row["task"]) for row in rows]
    prompts = {task.id: row["prompt"] for task, row in zip(tasks, rows, strict=True)}
    to_compute = metrics.Settings(
        k=settings.k,
        fast_p=settings.fast_p,
        bootstrap=settings.bootstrap,
        seed=cfg.seed,
        compiled=cfg.executor.compile_baseline is not None,
        extra=None if settings.channel is None else find_figures(settings.channel),
    )
    asked = _what_decides(cfg, settings, tasks_digest)
    model = read_node(ModelSettings, cfg.model, "model")
    strategy = _read_strategy(cfg, settings)
    references = read_references(settings.references, needed="similarity" in reward.measures)
    make_work = partial(
        _Work,
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
            policy = _policy(settings, name)
            with open_stage(f"eval of {name}", settings.folder / name, asked | _fingerprint(settings, policy)) as part:
                ledger = Ledger(part.path / RECORDS)
                if not part.done:
                    part.finish(_sample_and_judge(work, name, policy, ledger) | _provenance(cfg))
                    shutil.rmtree(part.path / ANSWERS, ignore_errors=True)  # the records have them
                records[name] = list(ledger)
                if settings.kernelbench_run:
                    kernelbench_export.export(records[name], tasks, part.path / "kernelbench")
                figures = metrics.summarize(records[name], tasks, to_compute)
                summaries[name] = {"policy": name, "folder": policy.model, **figures, **read_figures(part.path)}
                if turns := trajectories.by_turn(records[name], tasks, to_compute):
                    summaries[name]["turns"] = turns
                write_json(part.path / METRICS, summaries[name])
        names = list(summaries)
        comparisons = [
            {"after": after, "before": before}
            | {"figures": metrics.compare(records[after], records[before], tasks, to_compute)}
            for before, after in zip(names, names[1:], strict=False)
        ]
        results = {
            "schema_version": SCHEMA_VERSION,
            "tasks": [{name: getattr(task, name) for name in TaskEntry.model_fields} for task in tasks],
            "partial": Partial(num=len(rows), of=len(every_row)).model_dump() if len(rows) < len(every_row) else None,
            "policies": summaries,
            "comparisons": comparisons,
            **({} if cfg.rejudge is None else {"rejudged": rejudge.changes(Path(cfg.rejudge), records)}),
            **_provenance(cfg),
        }
        path = Path(cfg.output_dir) / RESULTS
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


def check_settings(node: DictConfig) -> EvalSettings:
    """The settings of the stage, whose policies are there.

    Raises:
        UserError: names the value that cannot be used, or the policy that is not there.
    """
    from kernelrl.policies.models import find_policy  # torch and transformers: seconds that a report need not wait for

    settings = read_settings(node)
    for name in settings.policies:
        policy = _policy(settings, name)
        try:
            if isinstance(policy, LocalSettings):
                find_policy(policy.model, policy.revision)
        except UserError as error:
            raise UserError(f"eval.policies.{name}: {error}; or leave it out with ~eval.policies.{name}") from None
    return settings


def _policy(settings: EvalSettings, name: str) -> Settings | ReadySettings | RecordedSettings:
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
    return settings


def _read_tasks(cfg: DictConfig, settings: EvalSettings) -> tuple[list[dict[str, Any]], str]:
    """The rows to evaluate on, `task` and `prompt`, and a digest of them."""
    if settings.tasks is not None:
        return read_table(settings.tasks, ("task", "prompt")), digest(settings.tasks)
    rows = [task_row(task, cfg.dialect, cfg.prompt.style, None) for task in sources.load_all(cfg.tasks)]
    return rows, hashlib.sha256(repr([(row["task"], row["prompt"]) for row in rows]).encode()).hexdigest()


def _what_decides(cfg: DictConfig, settings: EvalSettings, tasks_digest: str) -> dict[str, Any]:
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


def _read_strategy(cfg: DictConfig, settings: EvalSettings) -> Strategy:
    """The strategy of the evaluation.

    Raises:
        UserError: it cannot be used, needs several policies, or asks one that only has finished kernels.
    """
    strategy = make_strategy(cfg.strategy)
    if strategy.needs or cfg.policies:
        raise UserError(f"eval strategy={strategy.name}: every policy plays all roles here; leave out policies.*")
    if strategy.name != "single":
        for name in settings.policies:
            if isinstance(_policy(settings, name), ReadySettings | RecordedSettings):
                raise UserError(
                    f"eval strategy={strategy.name}: eval.policies.{name} holds finished kernels, which answer no "
                    "further question; use strategy=single"
                )
    return strategy


def _fingerprint(settings: EvalSettings, policy: Settings | ReadySettings | RecordedSettings) -> dict[str, Any]:
    """What decides a policy's samples: the content of its folder, and how it is sampled otherwise than the others."""
    from kernelrl.policies.models import find_policy
    from kernelrl.training.checkpoints import digests

    if not isinstance(policy, LocalSettings):
        return {"policy": policy.identity}
    shared = settings.model_dump() | {"backend": "transformers", "model": policy.model, "revision": policy.revision}
    own = {key: value for key, value in policy.identity.items() if key not in shared or value != shared[key]}
    return {"policy": digests(find_policy(policy.model, policy.revision))} | ({"sampling": own} if own else {})


def _run_part(work: _Work, asked: Mapping[str, Any]) -> Path:
    """Sample and judge this process's part of every policy's samples, into a shard of its own. Returns its folder."""
    settings = work.settings
    policies = {name: _fingerprint(settings, _policy(settings, name)) for name in settings.policies}
    name = f"part{settings.part}of{settings.parts}"
    with open_stage(f"eval, {name}", settings.folder / "parts" / name, {**asked, "policies": policies}) as stage:
        if not stage.done:
            for policy in settings.policies:
                if not is_done(settings.folder / policy):
                    ledger = Ledger(settings.folder / policy / RECORDS, shard=name)
                    _sample_and_judge(work, policy, _policy(settings, policy), ledger)
            stage.finish({"policies": list(policies)})
        return stage.path


def _sample_and_judge(
    work: _Work, name: str, sampling: Settings | ReadySettings | RecordedSettings, ledger: Ledger
) -> dict[str, Any]:
    """Fill the ledger of one policy. Returns how many samples it held before, and the seconds that this took.

    A batch holds all samples of its tasks, because some rewards compare a sample with its group. Batches are the same
    in every run, each sample with its own seed: a resumed run draws what the interrupted one would have drawn.

    Raises:
        UserError: a server has left questions without an answer; what it did answer is kept.
    """
    if work.strategy.name != "single":
        assert not isinstance(sampling, ReadySettings | RecordedSettings)  # see `_read_strategy`
        return _sample_trajectories(work, name, sampling, ledger)
    started = time.monotonic()
    settings = work.settings
    earlier = list(ledger)
    known = {record.id: record for record in earlier}
    if ledger.skipped:
        log.warning("%s: %d torn or corrupt line(s) skipped; sampling them again", ledger.folder, ledger.skipped)
    wanted = [(f"eval/{name}/{task.id}/{sample}", task) for task in work.tasks for sample in range(settings.samples)]
    size = max(1, settings.batch_size // settings.samples) * settings.samples
    num_correct = sum(record.verdict.correct for record in earlier)
    failures: Counter[str] = Counter()
    with (
        closing(_open(work, name, sampling)) as policy,
        track(len(wanted), f"eval {name}") as progress,
    ):
        for number, start in enumerate(range(0, len(wanted), size)):
            batch = wanted[start : start + size]
            mine = settings.part is None or number % settings.parts == settings.part
            if mine and any(id not in known for id, _ in batch):
                answers = _draw(work, policy, batch, start)
                failed = [answer.failure for answer in answers if answer.failure is not None]
                failures.update(failed)
                if failed and len(failed) == len(batch):
                    break  # it answers nothing
                if not failed:
                    drawn = [
                        (id, task, answer) for (id, task), answer in zip(batch, answers, strict=True) if id not in known
                    ]
                    records = _judge(work, name, drawn, [known[id] for id, _ in batch if id in known])
                    ledger.append(records)
                    num_correct += sum(record.verdict.correct for record in records)
            progress.advance(len(batch), note=f"{num_correct} correct")
    if failures:
        kinds = ", ".join(f"{count} x {kind}" for kind, count in failures.items())
        raise UserError(
            f"eval.policies.{name}: questions without an answer ({kinds}); "
            "what was answered is kept, and the same command asks for the rest"
        )
    return {"num_resumed": len(known), "seconds": round(time.monotonic() - started, 1)}


def _sample_trajectories(work: _Work, name: str, sampling: Settings, ledger: Ledger) -> dict[str, Any]:
    """Fill the ledger of one policy by the strategy; see `_sample_and_judge`."""
    settings = work.settings
    problems = trajectories.make_problems(name, work.tasks, work.prompts, work.dialect, settings.samples, work.seed)
    mine = problems if settings.part is None else problems[settings.part :: settings.parts]
    with closing(backends.open_policy(sampling, work.model, f"eval.policies.{name}")) as policy:
        return trajectories.sample(
            work.strategy, name, policy, work.executor, work.reward, mine, ledger, work.seed, settings.batch_size
        )


def _open(
    work: _Work, name: str, sampling: Settings | ReadySettings | RecordedSettings
) -> Policy | ReadyKernels | RecordedCompletions:
    where = f"eval.policies.{name}"
    if isinstance(sampling, RecordedSettings):
        return RecordedCompletions(sampling, where)
    if isinstance(sampling, ReadySettings):
        kernels = ReadyKernels(sampling, [task.id for task in work.tasks], where)
        if kernels.missing:
            first, number = kernels.missing[0], len(kernels.missing)
            log.warning("%s: no kernel for %d of %d tasks, e.g. %s", where, number, len(work.tasks), first)
        return kernels
    return backends.open_policy(sampling, work.model, where)


def _draw(
    work: _Work, policy: Policy | ReadyKernels | RecordedCompletions, batch: Sequence[tuple[str, Task]], first: int
) -> list[Answer]:
    """An answer for each sample, which has an id and a task; `first` is the number of the first one in the run."""
    if isinstance(policy, ReadyKernels | RecordedCompletions):
        return [policy.answer(task.id, int(id.rpartition("/")[2])) for id, task in batch]
    seeds = [work.seed * 1_000_003 + first + index for index in range(len(batch))]
    return policy.sample([work.prompts[task.id] for _, task in batch], seeds)


def _judge(work: _Work, name: str, drawn: list[tuple[str, Task, Answer]], earlier: Sequence[Record]) -> list[Record]:
    """Records of new samples.

    Args:
        drawn: id, task and answer of each.
        earlier: records of the same groups that an interrupted run has left.
    """
    completions = [Completion.parse(answer.text) for _, _, answer in drawn]
    tasks = [task for _, task, _ in drawn]
    if work.judge is not None:
        verdicts = [work.judge(task, completion) for task, completion in zip(tasks, completions, strict=True)]
    else:
        verdicts = work.executor.evaluate(
            [
                Request(task=task, candidate=completion.candidate(work.dialect), dialect=work.dialect)
                for task, completion in zip(tasks, completions, strict=True)
            ]
        )
    opinions: list[float | None] = [None] * len(drawn)
    if work.verifier is not None:
        opinions = work.verifier.opinions(tasks, completions, verdicts)
    scores = work.reward.of_groups(
        [*zip(completions, verdicts, strict=True), *((Completion.parse(r.completion), r.verdict) for r in earlier)],
        [*(task.id for task in tasks), *(record.task_id for record in earlier)],
        progress=1.0,
        references=work.references,
        opinions=[*opinions, *(record.opinion for record in earlier)],
    )[: len(drawn)]
    return [
        Record.of(
            id=id,
            policy=name,
            prompt=to_text(work.prompts[task.id]),
            completion=completion.text,
            verdict=verdict,
            rewards=score.parts,
            reward=score.total,
            opinion=opinion,
            **answer.usage,
        )
        for (id, task, answer), completion, verdict, score, opinion in zip(
            drawn, completions, verdicts, scores, opinions, strict=True
        )
    ]


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
        "version": __version__,
        "git": git_version(),
        "packages": package_versions(),
        "machine": fingerprint(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
