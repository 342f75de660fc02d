"""Curation: from candidate tasks to a verified data set, in two stages, each in its folder.

1. Verification (`curate.verified`), which costs: tasks -> filters -> teachers' proposals -> the executor's verdicts.
   Holds `filters.jsonl`, `tasks.parquet`, `dropped.jsonl`, `records/` (the ledger) and `proposals.parquet`.
2. Selection (`curate.folder`), which is quick: verdicts -> triples (task, reasoning, kernel) -> the data set folder
   (`data/build.py`). A proposal enters only with a `correct` verdict. Another selection of the same proposals goes to
   another `curate.folder`, and nothing is judged again.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from itertools import chain
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from kernelrl.configs import read_node, to_dict
from kernelrl.console import console
from kernelrl.data import decontamination, filters, repairs, revisions, shards, sources
from kernelrl.data.build import DROPPED, build, dropped_line
from kernelrl.data.card import terminal_table
from kernelrl.data.decontamination import Benchmark
from kernelrl.data.licences import is_allowed
from kernelrl.data.selection import make_selector
from kernelrl.data.shards import Shard
from kernelrl.data.stored import StoredTasks, store
from kernelrl.data.tables import DRAWN_COLUMNS, PROPOSAL_COLUMNS, PROPOSALS, TASKS, Row, verdict_columns, write_table
from kernelrl.data.teachers import Asked, Teacher, make_teacher
from kernelrl.data.tokens import make_counter
from kernelrl.data.verification import Proposed, Verifier
from kernelrl.errors import InfrastructureError, UserError
from kernelrl.executor import make_executor
from kernelrl.executor.api import deciding_settings
from kernelrl.executor.engines.health import Heartbeat
from kernelrl.policies.backends.settings import NOT_DECIDING
from kernelrl.policies.prompts import build_prompt
from kernelrl.records import Ledger, digest
from kernelrl.stage_folder import DONE, SETTINGS, is_done, open_stage, read_figures, read_settings
from kernelrl.task import Task
from kernelrl.verdict import Verdict

log = logging.getLogger(__name__)


def run(cfg: DictConfig) -> Path:
    """Curate, or go on where a killed run stopped. Returns the folder of the data set.

    Raises:
        UserError: unknown source, teacher, dialect, prompt style, selector or tokenizer; or a selector that needs
            speedups where none are measured.
    """
    select = make_selector(cfg.selection, cfg.curate.timing)
    count_tokens = make_counter(cfg.curate.tokenizer, cfg.model)
    shard = Shard.parse(cfg.curate.shard)
    if cfg.curate.merge:
        shards.merge(Path(cfg.curate.verified), _settings(cfg))
    verified = _verified(cfg, shard)
    if shard is not None:
        console.print(f"shard {shard} is verified in {verified}; `kernelrl curate merge …` makes one of all")
        return verified
    settings = {
        "seed": cfg.seed,
        "proposals": digest(verified / PROPOSALS),
        "selection": cfg.selection,
        "prompt": cfg.prompt,
        "dialect": cfg.dialect,
        "tokenizer": cfg.curate.tokenizer,
        "difficulty": cfg.curate.difficulty,
        "min_reasoning": cfg.curate.min_reasoning,
        "repairs": cfg.curate.repairs,
    }
    _set_aside(Path(cfg.curate.folder), read_figures(verified).get("superseded", []))
    way_out = "choose another curate.folder= (nothing is judged again), or delete that folder"
    with open_stage("curate", cfg.curate.folder, settings, way_out) as stage:
        if not stage.done:
            second_turns = repairs.make(cfg, verified, _executor_settings(cfg))
            stage.finish(build(cfg, verified, select, count_tokens, stage.path, second_turns))
        console.print(terminal_table(read_figures(stage.path)))
        return stage.path


def _set_aside(folder: Path, superseded: list[str]) -> None:
    """Have a data set made again that was made from fewer proposals, before the verification was opened once more."""
    if is_done(folder) and read_settings(folder).get("proposals") in superseded:
        log.warning("%s was made from fewer proposals: it is made again", folder)
        for name in (DONE, SETTINGS):
            (folder / name).unlink()


def make_teachers(cfg: DictConfig) -> list[tuple[Teacher, str]]:
    """The teachers that curation asks, each with a dialect.

    Raises:
        UserError: no such teacher, it does not write the dialect, or two have the same name.
    """
    made = [(make_teacher(each.teacher, dialect), dialect) for each in cfg.curate.teachers for dialect in each.dialects]
    for name, count in Counter((teacher.name, dialect) for teacher, dialect in made).items():
        if count > 1:
            raise UserError(
                f"curate.teachers: {count} are called {name[0]!r} in {name[1]}; give each a label of its own"
            )
    return made


def _settings(cfg: DictConfig) -> dict[str, Any]:
    """All that decides the proposals and their verdicts."""
    return {
        "seed": cfg.seed,
        "tasks": cfg.tasks,
        "teachers": [{**each, "teacher": _deciding(each["teacher"])} for each in to_dict(cfg.curate)["teachers"]],
        "prompt": cfg.prompt,
        "executor": deciding_settings(_executor_settings(cfg)),
        "licences": cfg.curate.licences,
        "num_triples": cfg.curate.num_triples,
        "num_heldout_triples": cfg.curate.num_heldout_triples,
        "filters": cfg.filters,
        "decontamination": decontamination.deciding_settings(cfg.decontamination),
    }


def _deciding(teacher: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a teacher's config that decides its answers: a limit of cost may be raised, and a server may move."""
    return {key: value for key, value in teacher.items() if key not in NOT_DECIDING | {"max_cost"}}


def _verified(cfg: DictConfig, shard: Shard | None) -> Path:
    """The folder of verified proposals, made now unless it is there."""
    settings, folder = _settings(cfg), Path(cfg.curate.verified)
    if shard is not None:
        settings, folder = settings | {"shard": str(shard)}, shard.folder(folder)
    if is_done(folder):
        with open_stage("curate", folder, settings) as stage:
            figures = read_figures(stage.path)
            if (
                not cfg.curate.reopen
                or "shards" in figures
                or not figures.get("unanswered", 0) + figures.get("not_judged", 0)
            ):
                return stage.path
        log.warning(
            "%s: %d questions without an answer and %d kernels without a verdict: they are tried again",
            *(folder, figures["unanswered"], figures["not_judged"]),
        )
    teachers = make_teachers(cfg)
    split = sources.load(cfg.tasks)
    build_prompt(split.train[0], cfg.dialect, cfg.prompt.style)
    with open_stage("curate", folder, settings) as stage:
        revisions.require_same(stage.path, (task.revision for task in chain(split.train, split.heldout)))
        proposals = stage.path / PROPOSALS
        task_figures = _draw_tasks(cfg, split, shard, stage.path)
        del split  # from here on tasks are read from their file
        train, heldout = (StoredTasks(stage.path / TASKS, name) for name in ("train", "heldout"))
        earlier = [*read_figures(stage.path).get("superseded", []), digest(proposals)] if proposals.exists() else []
        figures = _verify(cfg, shard, train, heldout, teachers, stage.path)
        _require_few_failures(figures, cfg.curate.max_failed, stage.path)
        superseded = [each for each in earlier if each != digest(proposals)]
        stage.finish(task_figures | figures | {"superseded": superseded})
        return stage.path


def _require_few_failures(figures: Mapping[str, Any], most: float, folder: Path) -> None:
    """A storm of rate limits or a lost machine must not end as a small data set.

    Raises:
        InfrastructureError: more than the share `most` of the questions has no answer, or of the kernels no verdict.
    """
    for what, failed, total in (
        (_and_why("questions to teachers have no answer", figures), figures["unanswered"], figures["questions"]),
        ("kernels have no verdict", figures["not_judged"], figures["proposals"]),
    ):
        if failed > most * total:
            raise InfrastructureError(
                f"curate: {failed} of {total} {what} (curate.max_failed={most}); the rest is kept in {folder}: "
                "run the same command again to try these once more"
            )


def _and_why(what: str, figures: Mapping[str, Any]) -> str:
    """With the kinds of failures, by number."""
    kinds = ", ".join(f"{number} {kind}" for kind, number in figures["failures"].items())
    return f"{what}: {kinds}" if kinds else what


def _executor_settings(cfg: DictConfig) -> dict[str, Any]:
    return to_dict(cfg.executor) | {"timing": cfg.curate.timing, "sanitize": cfg.curate.sanitize}


def _draw_tasks(cfg: DictConfig, whole: sources.TaskSplit, shard: Shard | None, folder: Path) -> dict[str, Any]:
    """Write the tasks that are worth it to `tasks.parquet`, the others to `dropped.jsonl` with a reason; the counts.

    Training tasks are read from where the source has them, pass by pass; held-out tasks are all in memory, since every
    training task is compared with each.
    """
    split = whole if shard is None else shard.split(whole)
    settings = read_node(filters.FilterSettings, cfg.filters, "filters")
    number = len(split.heldout) + len(split.train)
    filtered = filters.probe_all(chain(split.heldout, split.train), number, settings, folder / "filters.jsonl")
    dropped = Counter[str]()

    def keep(tasks: Iterable[Task], wanted: int | None, find_fault: Callable[[Task], str | None]) -> Iterator[Task]:
        """The first tasks without a fault; the others are written down with theirs."""
        kept = 0
        for task in tasks:
            why = find_fault(task) or ("more than wanted" if kept == wanted else None)
            if why is None:
                kept += 1
                yield task
            else:
                dropped[why] += 1
                file.write(dropped_line("task", task.id, why))

    def fails_filter(task: Task) -> str | None:
        reason = filtered[task.id]
        return None if reason is None else f"filter: {reason}"

    def is_unfit(task: Task) -> str | None:
        if cfg.curate.licences is not None and not is_allowed(task.licence, cfg.curate.licences):
            return "licence"
        return fails_filter(task) or ("held-out composition" if _composition(task) in held_compositions else None)

    with open(folder / DROPPED, "w") as file:
        heldout = list(keep(split.heldout, split.num_heldout, fails_filter))
        kept_apart = heldout if shard is None else whole.heldout  # what other shards hold out is not known here
        held_compositions = {_composition(task) for task in kept_apart}
        passing, _ = store(("train", task) for task in keep(split.train, None, is_unfit))
        benchmark = Benchmark("heldout", tuple(kept_apart))
        contaminated, _ = decontamination.apply(passing, [benchmark], cfg.decontamination, folder)
        train = keep(passing, split.num_train, lambda task: "contaminated" if task.id in contaminated else None)
        chosen = chain((("train", task) for task in train), (("heldout", task) for task in heldout))
        rows = ({"split": name, "task": task.model_dump_json()} for name, task in chosen)
        num_tasks = write_table(folder / TASKS, rows, DRAWN_COLUMNS)
    figures = {"source_skipped": split.skipped, "tasks_drawn": number, "tasks_dropped": dict(dropped)}
    return figures | {"tasks_train": num_tasks - len(heldout), "tasks_heldout": len(heldout)}


def _composition(task: Task) -> object:
    """What must not be in both splits: the operators in order, or the program where they are not known."""
    return task.ops or task.digest


def _verify(
    cfg: DictConfig,
    shard: Shard | None,
    train: Sequence[Task],
    heldout: Sequence[Task],
    teachers: list[tuple[Teacher, str]],
    folder: Path,
) -> dict[str, Any]:
    """Have the teachers' proposals judged and write them all down in order; returns the counts."""
    statuses: Counter[str] = Counter()
    checks: Counter[str] = Counter()
    machines: set[str] = set()

    def rows() -> Iterator[Row]:
        wanted = (("train", train, cfg.curate.num_triples), ("heldout", heldout, cfg.curate.num_heldout_triples))
        for split, tasks, number in wanted:
            limit = number if shard is None else shard.of(number)
            for proposed, verdict in verifier.verify(tasks, teachers, limit, f"verifying {split} kernels"):
                statuses[verdict.status] += 1
                checks.update(verdict.checks)
                machines.add(verdict.machine)
                yield {"split": split} | proposal_row(proposed, verdict)
            if not statuses["correct"] + statuses["not_run"] and cfg.curate.num_triples != 0:
                _require_few_failures(_left_open(teachers, statuses), cfg.curate.max_failed, folder)
                raise UserError(
                    f"curate: no triple out of {statuses.total()} proposals ({dict(statuses)}); see {folder}/records"
                )

    with make_executor(_executor_settings(cfg)) as executor, Heartbeat(executor, folder):
        workers = cfg.executor.workers or os.cpu_count() or 1
        verifier = Verifier(executor, Ledger(folder / "records"), cfg.prompt.style, workers)
        write_table(folder / PROPOSALS, rows(), PROPOSAL_COLUMNS)
    if cfg.curate.sanitize and statuses["correct"] and not checks:
        log.warning(
            f"curate.sanitize=true, and none of {statuses['correct']} right kernels has passed a check of its memory "
            "or threads; see `kernelrl doctor` (only C++ and Triton on the CPU are looked at again)"
        )
    return _left_open(teachers, statuses) | {
        "proposals_by_status": dict(statuses.most_common()),
        "proposals_by_check": dict(sorted(checks.items())),
        "machines": sorted(machines),
        "teachers": {f"{teacher.name}, {dialect}": teacher.summary() for teacher, dialect in teachers},
    }


def _left_open(teachers: Sequence[tuple[Teacher, str]], statuses: Mapping[str, int]) -> dict[str, Any]:
    """How many questions and proposals there were, and how many of them another run tries again."""
    return {
        "questions": sum(teacher.questions for teacher, _ in teachers),
        "unanswered": sum(teacher.unanswered for teacher, _ in teachers),
        "failures": dict(sum((Counter(teacher.summary().get("failed", {})) for teacher, _ in teachers), Counter())),
        "proposals": sum(statuses.values()),
        "not_judged": statuses.get("infrastructure", 0),
    }


def proposal_row(proposed: Proposed, verdict: Verdict) -> Row:
    """The row of a judged proposal in `proposals.parquet`, but for its split."""
    asked = proposed.proposal.asked
    about = dict.fromkeys(field.name for field in fields(Asked)) if asked is None else asdict(asked)
    return about | {
        "task_id": proposed.task.id,
        "dialect": proposed.dialect,
        "teacher": proposed.teacher,
        "kernel_level": proposed.proposal.level,
        "completion": proposed.proposal.completion(),
        "reasoning": proposed.proposal.reasoning,
        "kernel": proposed.proposal.source,
        "verdict": verdict_columns(verdict),
        "record": proposed.id,
    }
