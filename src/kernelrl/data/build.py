"""From verified proposals to the data set folder: what `kernelrl sft`, `grpo`, `eval` and `datasets.load_dataset` read.

The folder holds `sft_train.parquet` and `sft_heldout.parquet` (triples), `tasks_train.parquet` and
`tasks_heldout.parquet`, `preferences_train.parquet` (pairs of kernels), `labels_train.parquet` (kernels, right or
wrong), `refinements_train.parquet` (a wrong kernel, its verdict, a right one), `README.md` (the card) with `plots/`,
`summary.json` (the counts), `dropped.jsonl` (what is not in it, and why) and `manifest.json` (what it was made from).
"""

from __future__ import annotations

import json
import shutil
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import mean
from sys import intern
from typing import Any

from omegaconf import DictConfig

from kernelrl.data import card, manifest
from kernelrl.data.disk_map import DiskMap
from kernelrl.data.preferences import labels, pairs, refinements
from kernelrl.data.rows import sft_row, task_row
from kernelrl.data.selection import Measured, Pool, Select, Selection, Triple
from kernelrl.data.stored import StoredColumn, StoredTasks, TasksById
from kernelrl.data.tables import (
    CONTAMINATION,
    LABEL_COLUMNS,
    LABELS_TRAIN,
    MATCHES,
    PREFERENCE_COLUMNS,
    PREFERENCES_TRAIN,
    PROPOSALS,
    REFINEMENT_COLUMNS,
    REFINEMENTS_TRAIN,
    SFT_COLUMNS,
    SFT_HELDOUT,
    SFT_TRAIN,
    TASK_COLUMNS,
    TASKS,
    TASKS_HELDOUT,
    TASKS_TRAIN,
    Row,
    iterate_table,
    write_table,
)
from kernelrl.data.tokens import Count
from kernelrl.errors import UserError
from kernelrl.records import write_json
from kernelrl.stage_folder import read_figures, read_settings
from kernelrl.task import Task

DROPPED = "dropped.jsonl"


def build(
    cfg: DictConfig,
    verified: Path,
    select: Select,
    count_tokens: Count,
    folder: Path,
    second_turns: Mapping[str, Sequence[Row]],
) -> dict[str, Any]:
    """Select triples and write the data set folder; returns the counts of verification and selection.

    Args:
        verified: folder of the verified proposals.
        second_turns: by the record of a kernel, the examples that repair it (`repairs.py`).

    Raises:
        UserError: the selector chose no triple, or no task.
    """
    tasks, kernels = TasksById(verified / TASKS), StoredColumn(verified / PROPOSALS, "kernel")
    train, held_out = (StoredTasks(verified / TASKS, split) for split in ("train", "heldout"))
    proposals = _measure(cfg, verified, tasks, count_tokens)
    selection = select(Pool(proposals.train, cfg.seed, tasks, kernels))
    if not len(selection) and cfg.curate.num_triples != 0:
        raise UserError(f"selection {cfg.selection.name} chose none of the {len(proposals.train)} verified triples")
    criteria: list[str | None] = [None] * len(proposals.tokens)
    for name, triples in [("correct", proposals.heldout), *selection.chosen.items()]:
        for triple in triples:
            criteria[triple.index] = name
    num_kept = sum(selection.tasks is None or task.id in selection.tasks for task in train)
    if not num_kept:
        raise UserError(f"selection {cfg.selection.name} keeps none of the {len(train)} training tasks")

    def sft_rows(split: str) -> Iterator[Row]:
        for row, tokens, criterion in zip(iterate_table(verified / PROPOSALS), proposals.tokens, criteria, strict=True):
            if criterion is not None and row["split"] == split:
                row |= {"reasoning_tokens": tokens, "difficulty": proposals.difficulty[row["task_id"]]}
                row |= {"seed": cfg.seed, "selected_by": criterion}
                yield sft_row(tasks[row["task_id"]], row, cfg.prompt.style)
                for turn in second_turns.get(row["record"], ()) if split == "train" else ():
                    repair = row | turn | {"reasoning_tokens": count_tokens(turn["reasoning"]), "selected_by": "repair"}
                    yield sft_row(tasks[row["task_id"]], repair, cfg.prompt.style) | {"prompt": turn["prompt"]}

    def task_rows(split: StoredTasks, wanted: frozenset[str] | None) -> Iterator[Row]:
        for task in split:
            if wanted is None or task.id in wanted:
                solved = proposals.solved.get(task.id)
                yield task_row(task, cfg.dialect, cfg.prompt.style, proposals.difficulty.get(task.id), solved)

    num_rows = write_table(folder / SFT_TRAIN, sft_rows("train"), SFT_COLUMNS)
    write_table(folder / SFT_HELDOUT, sft_rows("heldout"), SFT_COLUMNS)
    write_table(folder / TASKS_TRAIN, task_rows(train, selection.tasks), TASK_COLUMNS)
    write_table(folder / TASKS_HELDOUT, task_rows(held_out, None), TASK_COLUMNS)
    further = {}
    for name, rows, columns in (
        (PREFERENCES_TRAIN, pairs, PREFERENCE_COLUMNS),
        (LABELS_TRAIN, labels, LABEL_COLUMNS),
        (REFINEMENTS_TRAIN, refinements, REFINEMENT_COLUMNS),
    ):
        found = rows(verified, tasks, cfg.prompt.style)
        judged = (row | {"difficulty": proposals.difficulty[row["task_id"]]} for row in found)
        if number := write_table(folder / name, judged, columns):
            further[name.partition("_")[0]] = number
        else:
            (folder / name).unlink()
    _write_dropped(verified, proposals, criteria, cfg.curate.min_reasoning, folder / DROPPED)
    for name in (CONTAMINATION, MATCHES):
        if (verified / name).exists():
            shutil.copy(verified / name, folder)
    summary = (
        read_figures(verified)
        | _count(proposals, selection, criteria)
        | {"tasks_train": num_kept, "preferences": 0, "labels": 0, "refinements": 0}
        | {"repairs": num_rows - len(selection), **further}
    )
    write_json(folder / "summary.json", summary)
    card.write(folder, cfg.name, summary)
    settings = {"verification": read_settings(verified), "selection": read_settings(folder)}
    manifest.write(folder, settings, summary["machines"])
    return summary


@dataclass(frozen=True)
class _Proposals:
    """What selection needs to know about the proposals; their texts stay on disk, and what is known of each task."""

    train: list[Triple]
    heldout: list[Triple]
    tokens: array[int]
    """Length of every proposal's reasoning, by its row."""
    difficulty: Mapping[str, str]
    """By task id, where a kernel was proposed."""
    solved: Mapping[str, float]
    """The share of a task's judged proposals that are correct, by task id."""


def _measure(cfg: DictConfig, verified: Path, tasks: Mapping[str, Task], count_tokens: Count) -> _Proposals:
    """Read the proposals once: the triples among them, up to the numbers that are wanted, and every task's difficulty.

    Difficulty is the mean length of the reasonings of all proposals for a task, correct or not (ConCuR, section 6).
    """
    triples: dict[str, list[Triple]] = {"train": [], "heldout": []}
    tokens = array("I")
    difficulty: DiskMap[str] = DiskMap()
    solved: DiskMap[float] = DiskMap()
    easy, medium = cfg.curate.difficulty
    columns = ("split", "task_id", "dialect", "teacher", "kernel_level", "reasoning", "verdict")
    for id, rows in groupby(iterate_table(verified / PROPOSALS, columns), key=lambda row: str(row["task_id"])):
        lengths, right = [], []
        for row in rows:
            status, speedup = row["verdict"]["status"], row["verdict"]["speedup"]
            lengths.append(count_tokens(row["reasoning"]))
            if status not in ("infrastructure", "not_run"):
                right.append(status == "correct")
            if status == "correct" and lengths[-1] >= cfg.curate.min_reasoning:
                triple = Triple(
                    index=len(tokens),
                    task_id=id,
                    category=intern(tasks[id].category),  # a row has its own copy of every string
                    dialect=intern(row["dialect"]),
                    tokens=lengths[-1],
                    teacher=intern(row["teacher"]),
                    level=row["kernel_level"] and intern(row["kernel_level"]),
                    speedup=None if speedup is None else Measured(speedup["median"], speedup["low"]),
                )
                triples[row["split"]].append(triple)
            tokens.append(lengths[-1])
        difficulty[id] = "easy" if mean(lengths) < easy else "medium" if mean(lengths) <= medium else "hard"
        if right:
            solved[id] = mean(right)
    num_train, num_heldout = cfg.curate.num_triples, cfg.curate.num_heldout_triples
    return _Proposals(triples["train"][:num_train], triples["heldout"][:num_heldout], tokens, difficulty, solved)


def dropped_line(kind: str, name: str, why: str) -> str:
    """A line of `dropped.jsonl`: `kind` is `task` or `proposal`, `name` its id."""
    return json.dumps({"kind": kind, "id": name, "why": why}) + "\n"


def _write_dropped(
    verified: Path, proposals: _Proposals, criteria: Sequence[str | None], min_reasoning: int, path: Path
) -> None:
    """The tasks that were dropped before verification, and every proposal that is in no split."""
    shutil.copy(verified / DROPPED, path)
    passed_over = {triple.index for triple in proposals.train if criteria[triple.index] is None}
    with open(path, "a") as file:
        for index, row in enumerate(iterate_table(verified / PROPOSALS, ("record", "verdict"))):
            if criteria[index] is None:
                status = row["verdict"]["status"]
                short = "reasoning too short" if proposals.tokens[index] < min_reasoning else "more than wanted"
                why = "not selected" if index in passed_over else short if status == "correct" else status
                file.write(dropped_line("proposal", row["record"], why))


def _count(proposals: _Proposals, selection: Selection, criteria: Sequence[str | None]) -> dict[str, Any]:
    rows = [triple for triple in proposals.train if criteria[triple.index] is not None]
    return {
        "verified": len(proposals.train),
        "selected_by": {name: len(triples) for name, triples in selection.chosen.items()},
        "triples": len(rows),
        "triples_heldout": len(proposals.heldout),
        "triples_by_category": _ordered(triple.category for triple in rows),
        "triples_by_dialect": _ordered(triple.dialect for triple in rows),
        "triples_by_difficulty": _ordered(proposals.difficulty[triple.task_id] for triple in rows),
    }


def _ordered(values: Iterable[str]) -> dict[str, int]:
    return dict(Counter(values).most_common())
