"""The eval stage: sample every policy on the held-out tasks, judge, record, and write the figures.

Not covered here: sampling through vLLM. Generation and judging take turns on purpose: a kernel timed on a machine that
generates at the same time would be timed wrongly.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
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
from kernelrl.eval import kernelbench, metrics
from kernelrl.eval.provenance import git_version, package_versions
from kernelrl.eval.table import make_table
from kernelrl.executor import make_executor
from kernelrl.executor.api import Executor, Request, deciding_settings
from kernelrl.executor.engines.health import Heartbeat
from kernelrl.policies.prompts import Message, to_text
from kernelrl.policies.settings import ModelSettings
from kernelrl.records import Ledger, Record, digest, write_json
from kernelrl.rewards import Reward, make_reward
from kernelrl.stage_folder import is_done, open_stage, read_figures
from kernelrl.task import Task
from kernelrl.training.tracking import report_to

if TYPE_CHECKING:  # seconds that a report need not wait for
    from kernelrl.policies.sampling import Sampler
    from kernelrl.policies.verifier import Verifier

METRICS = "metrics.json"
RESULTS = "results.json"
RECORDS = "records"
NOT_DECIDING = {"folder", "tasks", "references", "policies", "k", "fast_p", "bootstrap", "part", "parts"}
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
    policies: dict[Annotated[str, Field(pattern=r"^\w[\w.-]*$")], Path] = Field(min_length=1)
    """Name -> folder of a model or an adapter; each is compared with the one before."""
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
    settings = check_settings(cfg.eval)
    reward = make_reward(cfg.reward)
    rows, tasks_digest = _read_tasks(cfg, settings)
    tasks = [Task.model_validate_json(row["task"]) for row in rows]
    prompts = {task.id: row["prompt"] for task, row in zip(tasks, rows, strict=True)}
    to_compute = metrics.Settings(k=settings.k, fast_p=settings.fast_p, bootstrap=settings.bootstrap, seed=cfg.seed)
    asked = _what_decides(cfg, settings, tasks_digest)
    model = read_node(ModelSettings, cfg.model, "model")
    references = read_references(settings.references, needed="similarity" in reward.measures)
    if settings.part is not None:
        with _open_judges(cfg, settings) as (executor, verifier):
            work = _Work(settings, tasks, prompts, cfg.dialect, cfg.seed, reward, references, executor, verifier, model)
            return _run_part(work, asked)
    records: dict[str, list[Record]] = {}
    summaries: dict[str, Any] = {}
    with (
        open_stage("eval", settings.folder, asked) as stage,
        _open_judges(cfg, settings) as (executor, verifier),
    ):
        work = _Work(settings, tasks, prompts, cfg.dialect, cfg.seed, reward, references, executor, verifier, model)
        for name, policy in settings.policies.items():
            with open_stage(f"eval of {name}", settings.folder / name, asked | _fingerprint(policy)) as part:
                ledger = Ledger(part.path / RECORDS)
                if not part.done:
                    part.finish(_sample_and_judge(work, name, policy, ledger) | _provenance(cfg))
                records[name] = list(ledger)
                figures = metrics.summarize(records[name], tasks, to_compute)
                summaries[name] = {"policy": name, "folder": str(policy), **figures, **read_figures(part.path)}
                write_json(part.path / METRICS, summaries[name])
        names = list(summaries)
        comparisons = [
            {"after": after, "before": before}
            | {"figures": metrics.compare(records[after], records[before], tasks, to_compute)}
            for before, after in zip(names, names[1:], strict=False)
        ]
        results = {"policies": summaries, "comparisons": comparisons, **_provenance(cfg)}
        path = Path(cfg.output_dir) / RESULTS
        write_json(path, results)
        if not stage.done:
            _track(cfg, summaries)
        stage.finish({"policies": names})
    make_console().print(make_table(results))
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
    from kernelrl.policies.models import check_policy  # torch and transformers: seconds that a report need not wait for

    settings = read_settings(node)
    for name, policy in settings.policies.items():
        try:
            check_policy(policy)
        except UserError as error:
            raise UserError(f"eval.policies.{name}: {error}; or leave it out with ~eval.policies.{name}") from None
    return settings


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
    }


def _fingerprint(policy: Path) -> dict[str, Any]:
    from kernelrl.training.checkpoints import digests

    return {"policy": digests(policy)}


def _run_part(work: _Work, asked: Mapping[str, Any]) -> Path:
    """Sample and judge this process's part of every policy's samples, into a shard of its own. Returns its folder."""
    settings = work.settings
    policies = {name: _fingerprint(policy) for name, policy in settings.policies.items()}
    name = f"part{settings.part}of{settings.parts}"
    with open_stage(f"eval, {name}", settings.folder / "parts" / name, {**asked, "policies": policies}) as stage:
        if not stage.done:
            for policy, folder in settings.policies.items():
                if not is_done(settings.folder / policy):
                    ledger = Ledger(settings.folder / policy / RECORDS, shard=name)
                    _sample_and_judge(work, policy, folder, ledger)
            stage.finish({"policies": list(policies)})
        return stage.path


def _sample_and_judge(work: _Work, name: str, policy: Path, ledger: Ledger) -> dict[str, Any]:
    """Fill the ledger of one policy. Returns how many samples it held before, and the seconds that this took.

    A batch holds all samples of its tasks, because some rewards compare a sample with its group. Batches are the same
    in every run, each with its own seed: a resumed run draws what the interrupted one would have drawn.
    """
    from kernelrl.policies.sampling import Sampler

    started = time.monotonic()
    settings = work.settings
    earlier = list(ledger)
    known = {record.id: record for record in earlier}
    if ledger.skipped:
        log.warning("%s: %d torn or corrupt line(s) skipped; sampling them again", ledger.folder, ledger.skipped)
    wanted = [(f"eval/{name}/{task.id}/{sample}", task) for task in work.tasks for sample in range(settings.samples)]
    size = max(1, settings.batch_size // settings.samples) * settings.samples
    sampler = Sampler(policy, settings.temperature, settings.top_p, settings.max_new_tokens, work.model)
    num_correct = sum(record.verdict.correct for record in earlier)
    with track(len(wanted), f"eval {name}") as progress:
        for number, start in enumerate(range(0, len(wanted), size)):
            batch = wanted[start : start + size]
            mine = settings.part is None or number % settings.parts == settings.part
            if mine and any(id not in known for id, _ in batch):
                texts = _draw(work, sampler, [task for _, task in batch], start)
                drawn = [(id, task, text) for (id, task), text in zip(batch, texts, strict=True) if id not in known]
                records = _judge(work, name, drawn, [known[id] for id, _ in batch if id in known])
                ledger.append(records)
                num_correct += sum(record.verdict.correct for record in records)
            progress.advance(len(batch), note=f"{num_correct} correct")
    return {"num_resumed": len(known), "seconds": round(time.monotonic() - started, 1)}


def _draw(work: _Work, sampler: Sampler, tasks: Sequence[Task], first: int) -> list[str]:
    """A completion for each task, `eval.batch_size` at a time; `first` is the number of the first one in the run."""
    texts: list[str] = []
    for start in range(0, len(tasks), work.settings.batch_size):
        prompts = [work.prompts[task.id] for task in tasks[start : start + work.settings.batch_size]]
        texts += sampler.sample(prompts, seed=work.seed * 1_000_003 + first + start)
    return texts


def _judge(work: _Work, name: str, drawn: list[tuple[str, Task, str]], earlier: Sequence[Record]) -> list[Record]:
    """Records of new samples.

    Args:
        drawn: id, task and completion of each.
        earlier: records of the same groups that an interrupted run has left.
    """
    completions = [Completion.parse(text) for _, _, text in drawn]
    verdicts = work.executor.evaluate(
        [
            Request(task=task, candidate=completion.candidate(work.dialect), dialect=work.dialect)
            for (_, task, _), completion in zip(drawn, completions, strict=True)
        ]
    )
    tasks = [task for _, task, _ in drawn]
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
        Record(
            id=id,
            stage="eval",
            step=0,
            policy=name,
            task_id=task.id,
            prompt=to_text(work.prompts[task.id]),
            completion=completion.text,
            verdict=verdict,
            rewards=score.parts,
            reward=score.total,
            opinion=opinion,
            machine=verdict.machine,
            version=__version__,
        )
        for (id, task, _), completion, verdict, score, opinion in zip(
            drawn, completions, verdicts, scores, opinions, strict=True
        )
    ]


def _track(cfg: DictConfig, summaries: dict[str, Any]) -> None:
    if report_to(cfg, "eval"):
        import wandb

        wandb.log(
            {
                f"eval/{name}/{figure}": estimate["value"]
                for name, summary in summaries.items()
                for figure, estimate in summary["figures"].items()
                if estimate["value"] is not None
            }
        )


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
