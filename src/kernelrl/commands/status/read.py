"""How a run is doing, read from its stage folders: nothing is asked of the processes, and nothing is changed."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow.parquet as pq
from pydantic import BaseModel, ValidationError

from kernelrl.commands.status.logs import LaunchedJob, LogFile, read_jobs, read_logs
from kernelrl.errors import UserError
from kernelrl.executor.api import NodeHealth
from kernelrl.executor.engines import health
from kernelrl.query import Query
from kernelrl.records import Record, digest
from kernelrl.runs.stages import PIPELINE
from kernelrl.stage_folder import LOCK, LOG, SETTINGS, is_done, read_figures, read_log, read_settings

State = Literal["done", "running", "stopped", "waiting"]
FOLDERS = {"curate": ("verified", "data"), "sft": ("sft",), "grpo": ("grpo",), "eval": ("eval",)}
"""Where a stage works, in order."""
WINDOW_S = 300.0
"""Over which rates are taken (in seconds)."""
STALE_S = 6 * health.EVERY_S
"""Age of a report from which on it says nothing about now (in seconds)."""
NUM_STEPS = 5
"""Last steps that are shown."""
TAIL_BYTES = 1 << 24
"""Of a ledger's file, from which rates are taken."""
CHARS = 240
"""Length at which an error is cut off."""


class NodeReport(NodeHealth):
    """One entry of a `health/rankN.json`."""

    time: float
    """Unix time of the report (in seconds)."""
    rank: str = ""

    def is_stale(self, now: float) -> bool:
        """Whether it is too old to say anything about now."""
        return now - self.time > STALE_S


class Report(BaseModel):
    """A `health/rankN.json`."""

    time: float
    host: str
    pid: int
    nodes: list[NodeReport]


@dataclass(frozen=True)
class Progress:
    """How far a stage is."""

    done: float
    of: float | None
    """None: not known."""
    unit: str
    left_s: float | None = None
    """Time left (in seconds); None: not known."""

    @property
    def share(self) -> float | None:
        return min(self.done / self.of, 1.0) if self.of else None


@dataclass(frozen=True)
class StageStatus:
    """One stage of a run."""

    name: str
    state: State
    who: str = ""
    """Which process works on it, or what is known about the one that did."""
    progress: Progress | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)
    """Of a finished stage, from its `done.json`."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """By unit, over the last minutes in which it worked."""
    steps: tuple[Mapping[str, float], ...] = ()
    """The last entries of its log."""
    nodes: tuple[NodeReport, ...] = ()
    error: str = ""
    """The last of its records that says nothing about a candidate but that the machine or the task failed."""


@dataclass(frozen=True)
class RunStatus:
    """All that the page shows."""

    run: Path
    time: float
    """Unix time at which it was read (in seconds)."""
    stages: tuple[StageStatus, ...]
    jobs: tuple[LaunchedJob, ...]
    logs: tuple[LogFile, ...]


def read(run: Path) -> RunStatus:
    """Read the status of a run.

    Raises:
        UserError: the folder holds no stage of a run.
    """
    stages = tuple(_read_stage(run, name) for name in PIPELINE)
    jobs, logs = tuple(read_jobs(run)), tuple(read_logs(run))
    if not jobs and not logs and all(stage.state == "waiting" for stage in stages):
        if not run.exists():
            raise UserError(f"{run}: there is no such folder; give the output_dir of a run that has begun")
        raise UserError(f"{run}: no stage of a run in it; give the run's output_dir, e.g. outputs/toy")
    return RunStatus(run, time.time(), stages, jobs, logs)


def _read_stage(run: Path, name: str) -> StageStatus:
    if name == "report":
        return StageStatus(name, "done" if (run / "report.html").exists() else "waiting")
    folders = [run / part for part in FOLDERS[name] if (run / part / SETTINGS).exists()]
    if not folders:
        return StageStatus(name, "waiting")
    folder = folders[-1]
    entries = [entry for entry in read_log(folder / LOG) if "loss" in entry]
    if is_done(run / FOLDERS[name][-1]):
        figures = {key: value for key, value in read_figures(folder).items() if isinstance(value, int | float)}
        return StageStatus(name, "done", figures=figures, steps=tuple(entries[-NUM_STEPS:]))
    reports = _read_reports(folder)
    running, who = _who(folder, reports)
    now = time.time()
    records = _last_records(folder)
    end = now if running else max((record.time for record in records), default=now)
    recent = [record for record in records if record.time > end - WINDOW_S]
    rates = _record_rates(recent, end)
    if len(entries) > 1:
        rates = {"steps/min": 60 / _seconds_per_step(entries)} | rates
    nodes = [
        node.model_copy(update={"rank": rank, "alive": node.alive and running})
        for rank, report in reports.items()
        for node in report.nodes
    ]
    unknown = [record.verdict for record in recent if record.verdict.status == "infrastructure"]
    return StageStatus(
        name=name,
        state="running" if running else "stopped",
        who=who,
        progress=_progress(run, name, folder, entries, rates.get("completions/s", 0.0)),
        rates=rates,
        steps=tuple(entries[-NUM_STEPS:]),
        nodes=tuple(nodes),
        error=" ".join(f"{unknown[-1].task_id}: {unknown[-1].feedback}".split())[:CHARS] if unknown else "",
    )


def _read_reports(folder: Path) -> dict[str, Report]:
    paths = sorted((folder / health.FOLDER).glob("rank*.json"))
    return {path.stem: Report.model_validate_json(path.read_text()) for path in paths}


def _who(folder: Path, reports: Mapping[str, Report]) -> tuple[bool, str]:
    """Whether a process works on a stage, and which one.

    The lock tells for processes of this machine; those of others are known by their reports alone.
    """
    holder = lock_holder(folder / LOCK)
    if holder is not None:
        return True, f"process {holder}, alive"
    now, here = time.time(), platform.node()
    fresh = [report for report in reports.values() if now - report.time < STALE_S and report.host != here]
    if fresh:
        return True, ", ".join(f"process {report.pid} on {report.host}" for report in fresh)
    last = (folder / LOCK).read_text().strip() if (folder / LOCK).exists() else ""
    elsewhere = sorted({report.host for report in reports.values()} - {here})
    where = f"no report from {', '.join(elsewhere)} lately" if elsewhere else "not alive on this machine"
    return False, f"process {last or 'unknown'}, {where}"


def lock_holder(path: Path) -> int | None:
    """The process of this machine that holds a stage's lock; None: nobody does. Asks without taking it."""
    if not path.exists():
        return None
    with open(path, "rb") as file:
        layout = "hhqqi4x"  # struct flock of Linux: type, whence, start, length, process
        asked = struct.pack(layout, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = struct.unpack(layout, fcntl.fcntl(file, fcntl.F_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else int(pid)


def _last_records(folder: Path) -> list[Record]:
    """The end of a stage's ledgers, in order of time; torn and corrupt lines are left out."""
    records = []
    for path in folder.rglob("records/*.jsonl"):
        for line in _tail(path):
            with contextlib.suppress(ValidationError):
                records.append(Record.model_validate_json(line))
    return sorted(records, key=lambda record: record.time)


def _tail(path: Path) -> list[bytes]:
    """The lines at the end of a file."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - TAIL_BYTES))
        lines = file.read().splitlines(keepends=True)
    return lines[size > TAIL_BYTES :]


def _record_rates(recent: list[Record], end: float) -> dict[str, float]:
    """Completions, and verdicts that were not recalled, per second of the window or of what the records tell of it."""
    if not recent:
        return {}
    # the first batch was generated and judged before it was written: the rate is of those after it
    first = recent[0].time
    later = [record for record in recent if record.time > first + 1.0]
    seconds = end - first
    if not later or seconds <= 0:
        return {}
    judged = sum(not record.verdict.cached for record in later)
    return {"completions/s": len(later) / seconds, "verdicts/s": judged / seconds}


def _seconds_per_step(entries: list[dict[str, Any]]) -> float:
    first, last = entries[-min(len(entries), 2 * NUM_STEPS)], entries[-1]
    return float((last["seconds"] - first["seconds"]) / max(last["step"] - first["step"], 1)) or 1e-3


def _progress(run: Path, name: str, folder: Path, entries: list[dict[str, Any]], rate: float) -> Progress | None:
    settings = read_settings(folder)
    if name in ("sft", "grpo"):
        step, of = entries[-1]["step"] if entries else 0, _max_steps(folder, settings)
        left = (of - step) * _seconds_per_step(entries) if of and len(entries) > 1 else None
        return Progress(step, of, "steps", left)
    if name == "eval":
        return _progress_of_eval(run, folder, settings, rate)
    if not list(folder.glob("records/*")):
        return None
    (found,) = Query(folder).rows("SELECT count(*) AS n, count(*) FILTER (status = 'correct') AS correct FROM records")
    wanted = settings["num_triples"], settings["num_heldout_triples"]
    if None in wanted or not rate or not found["correct"]:
        return Progress(found["correct"], None if None in wanted else sum(wanted), "correct kernels")
    seconds_each = found["n"] / found["correct"] / rate
    return Progress(
        found["correct"], sum(wanted), "correct kernels", max(sum(wanted) - found["correct"], 0) * seconds_each
    )


def _progress_of_eval(run: Path, folder: Path, settings: Mapping[str, Any], rate: float) -> Progress | None:
    """Of the policy that is being evaluated; which ones come after it, the folder does not say."""
    open_ = [path.parent for path in folder.glob(f"*/{SETTINGS}") if not is_done(path.parent)]
    if not open_ or not list(open_[0].glob("records/*")):
        return None
    (found,) = Query(open_[0]).rows("SELECT count(*) AS n FROM records")
    unit = f"samples of {open_[0].name}"
    tasks = run / "data" / "tasks_heldout.parquet"
    if not tasks.exists() or digest(tasks) != settings["tasks"]:
        return Progress(found["n"], None, unit)
    of = pq.ParquetFile(tasks).metadata.num_rows * settings["eval"]["samples"]
    return Progress(found["n"], of, unit, (of - found["n"]) / rate if rate else None)


def _max_steps(folder: Path, settings: Mapping[str, Any]) -> int | None:
    """Of the trainer's settings or, where an epoch's length decides, of its last checkpoint."""
    if (steps := settings["trainer"].get("max_steps", -1)) > 0:
        return int(steps)
    states = sorted(folder.glob("checkpoints/checkpoint-*/trainer_state.json"), key=lambda path: path.stat().st_mtime)
    return int(json.loads(states[-1].read_text())["max_steps"]) if states else None
