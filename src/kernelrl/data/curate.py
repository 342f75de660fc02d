"""Curation: from candidate tasks to a verified data set, in two stages, each in its folder.

1. Verification (`curate.verified`), which costs: tasks -> filters -> teachers' proposals -> the executor's verdicts.
   Holds `filters.jsonl`, `tasks.parquet`, `dropped.jsonl`, `records/` (the ledger) and `proposals.parquet`.
2. Selection (`curate.folder`), which is quick: verdicts -> triples (task, reasoning, kernel) -> the data set folder
   (`data/build.py`). A proposal enters only with a `correct` verdict. Another selection of the same proposals goes to
   another `curate.folder`, and nothing is judged again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from kernelrl.configs import read_node, to_dict
from kernelrl.console import console
from kernelrl.data import decontamination, filters, sources
from kernelrl.data.build import DROPPED, build, dropped_line
from kernelrl.data.card import terminal_table
from kernelrl.data.decontamination import Benchmark
from kernelrl.data.licences import is_allowed
from kernelrl.data.selection import make_selector
from kernelrl.data.tables import DRAWN_COLUMNS, PROPOSAL_COLUMNS, PROPOSALS, TASKS, Row, verdict_columns, write_table
from kernelrl.data.teachers import Teacher, make_teacher
from kernelrl.data.tokens import make_counter
from kernelrl.data.verification import Proposed, Verifier
from kernelrl.errors import UserError
from kernelrl.executor import make_executor
from kernelrl.executor.api import deciding_settings
from kernelrl.executor.engines.health import Heartbeat
from kernelrl.policies.prompts import build_prompt
from kernelrl.records import Ledger, digest, write_atomically
from kernelrl.stage_folder import is_done, open_stage, read_figures
from kernelrl.task import Task
from kernelrl.verdict import Verdict


def run(cfg: DictConfig) -> Path:
    """Curate, or go on where a killed run stopped. Returns the folder of the data set.

    Raises:
        UserError: unknown source, teacher, dialect, prompt style, selector or tokenizer; or a selector that needs
            speedups where none are measured.
    """
    select = make_selector(cfg.selection, cfg.curate.timing)
    count_tokens = make_counter(cfg.curate.tokenizer, cfg.model)
    verified = _verified(cfg)
    settings = {
        "seed": cfg.seed,
        "proposals": digest(verified / PROPOSALS),
        "selection": cfg.selection,
        "prompt": cfg.prompt,
        "dialect": cfg.dialect,
        "tokenizer": cfg.curate.tokenizer,
        "difficulty": cfg.curate.difficulty,
        "min_reasoning": cfg.curate.min_reasoning,
    }
    way_out = "choose another curate.folder= (nothing is judged again), or delete that folder"
    with open_stage("curate", cfg.curate.folder, settings, way_out) as stage:
        if not stage.done:
            stage.finish(build(cfg, verified, select, count_tokens, stage.path))
        console.print(terminal_table(read_figures(stage.path)))
        return stage.path


def make_teachers(cfg: DictConfig) -> list[tuple[Teacher, str]]:
    """The teachers that curation asks, each with a dialect.

    Raises:
        UserError: no such teacher, or it does not write the dialect.
    """
    return [(make_teacher(each.teacher, dialect), dialect) for each in cfg.curate.teachers for dialect in each.dialects]


def _verified(cfg: DictConfig) -> Path:
    """The folder of verified proposals, made now unless it is there."""
    settings = {
        "seed": cfg.seed,
        "tasks": cfg.tasks,
        "teachers": cfg.curate.teachers,
        "prompt": cfg.prompt,
        "executor": deciding_settings(_executor_settings(cfg)),
        "licences": cfg.curate.licences,
        "num_triples": cfg.curate.num_triples,
        "num_heldout_triples": cfg.curate.num_heldout_triples,
        "filters": cfg.filters,
        "decontamination": decontamination.deciding_settings(cfg.decontamination),
    }
    if is_done(cfg.curate.verified):
        with open_stage("curate", cfg.curate.verified, settings) as stage:
            return stage.path
    teachers = make_teachers(cfg)
    split = sources.load(cfg.tasks)
    build_prompt(split.train[0], cfg.dialect, cfg.prompt.style)
    with open_stage("curate", cfg.curate.verified, settings) as stage:
        train, heldout, task_figures = _draw_tasks(cfg, split, stage.path)
        stage.finish(task_figures | _verify(cfg, train, heldout, teachers, stage.path))
        return stage.path


def _executor_settings(cfg: DictConfig) -> dict[str, Any]:
    return to_dict(cfg.executor) | {"timing": cfg.curate.timing}


def _draw_tasks(
    cfg: DictConfig, split: sources.TaskSplit, folder: Path
) -> tuple[list[Task], list[Task], dict[str, Any]]:
    """The training and held-out tasks that are worth it, and counts; the others go to `dropped.jsonl` with a reason."""
    settings = read_node(filters.FilterSettings, cfg.filters, "filters")
    probed = filters.probe_all([*split.heldout, *split.train], settings, folder / "filters.jsonl")
    why = {task: f"filter: {reason}" for task, reason in probed.items() if reason}
    if cfg.curate.licences is not None:
        why |= {task.id: "licence" for task in split.train if not is_allowed(task.licence, cfg.curate.licences)}
    heldout = _first([task for task in split.heldout if task.id not in why], split.num_heldout, why)
    held_compositions = {_composition(task) for task in heldout}
    why = {task.id: "held-out composition" for task in split.train if _composition(task) in held_compositions} | why
    passing = [task for task in split.train if task.id not in why]
    clean, _ = decontamination.apply(passing, [Benchmark("heldout", tuple(heldout))], cfg.decontamination, folder)
    kept = {task.id for task in clean}
    why |= {task.id: "contaminated" for task in passing if task.id not in kept}
    train = _first(clean, split.num_train, why)

    rows = [{"split": "train", "task": task.model_dump_json()} for task in train]
    rows += [{"split": "heldout", "task": task.model_dump_json()} for task in heldout]
    write_table(folder / TASKS, rows, DRAWN_COLUMNS)
    drawn = [*split.train, *split.heldout]
    lines = [dropped_line("task", task.id, why[task.id]) for task in drawn if task.id in why]
    write_atomically(folder / DROPPED, "".join(lines))
    counts = Counter(why[task.id] for task in drawn if task.id in why)
    figures = {"source_skipped": split.skipped, "tasks_drawn": len(drawn), "tasks_dropped": dict(counts)}
    return train, heldout, figures | {"tasks_train": len(train), "tasks_heldout": len(heldout)}


def _first(tasks: list[Task], number: int | None, why: dict[str, str]) -> list[Task]:
    """The tasks that are wanted; the reasons of the others are added to `why`."""
    if number is None:
        return tasks
    why |= {task.id: "more than wanted" for task in tasks[number:]}
    return tasks[:number]


def _composition(task: Task) -> object:
    """What must not be in both splits: the operators in order, or the program where they are not known."""
    return task.ops or task.digest


def _verify(
    cfg: DictConfig, train: list[Task], heldout: list[Task], teachers: list[tuple[Teacher, str]], folder: Path
) -> dict[str, Any]:
    """Have the teachers' proposals judged and write them all down in order; returns the counts."""
    statuses: Counter[str] = Counter()
    machines: set[str] = set()

    def rows() -> Iterator[Row]:
        wanted = (("train", train, cfg.curate.num_triples), ("heldout", heldout, cfg.curate.num_heldout_triples))
        for split, tasks, limit in wanted:
            for proposed, verdict in verifier.verify(tasks, teachers, limit, f"verifying {split} kernels"):
                statuses[verdict.status] += 1
                machines.add(verdict.machine)
                yield {"split": split} | _proposal_row(proposed, verdict)
            if not statuses["correct"] + statuses["not_run"] and cfg.curate.num_triples != 0:
                raise UserError(
                    f"curate: no triple out of {statuses.total()} proposals ({dict(statuses)}); see {folder}/records"
                )

    with make_executor(_executor_settings(cfg)) as executor, Heartbeat(executor, folder):
        verifier = Verifier(executor, Ledger(folder / "records"), cfg.prompt.style)
        write_table(folder / PROPOSALS, rows(), PROPOSAL_COLUMNS)
    return {
        "proposals": statuses.total(),
        "proposals_by_status": dict(statuses.most_common()),
        "machines": sorted(machines),
        "teachers": {f"{teacher.name}, {dialect}": teacher.summary() for teacher, dialect in teachers},
    }


def _proposal_row(proposed: Proposed, verdict: Verdict) -> Row:
    return {
        "task_id": proposed.task.id,
        "dialect": proposed.dialect,
        "teacher": proposed.teacher,
        "completion": proposed.proposal.completion(),
        "reasoning": proposed.proposal.reasoning,
        "kernel": proposed.proposal.source,
        "verdict": verdict_columns(verdict),
        "record": proposed.id,
    }
