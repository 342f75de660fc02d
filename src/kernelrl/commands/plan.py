"""`kernelrl plan RUN`: how many executor workers hide the reward behind generation and training.

With overrides in place of a run (`kernelrl plan recipe=NAME`) it plans the memory of a training: `plan_memory`.

The stage times come from a run's records, or are given by hand; what more workers would make of them is simulated
(`executor/engines/simulation.py`).
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveFloat, PositiveInt, ValidationError
from rich.table import Table

from kernelrl.commands.arguments import Parser
from kernelrl.console import make_console, set_up_logging, track
from kernelrl.errors import UserError
from kernelrl.executor.engines.simulation import Cluster, Job, Load, Outcome, simulate
from kernelrl.query import Query
from kernelrl.stage_folder import LOG, read_log
from kernelrl.verdict import Verdict

USAGE = "kernelrl plan [RUN] [key=value ...] [--stage grpo|curate|eval] [--overlap] [--json]"
EPILOG = """\
RUN is the folder of a run, a stage or a ledger. The reward is hidden when the trainer waits for verdicts during less
than a share `hide` of its time.

how long the stages take, where there is no RUN:
  build_s check_s time_s     of one candidate; time_s has its node alone (default 0)
  reference_s                of a task's reference, once on every node that judges one of its candidates (default 0)

what the trainer asks for; where RUN has a log, as there:
  rate=R                     completions per second while it generates
  batch=N group=N            completions per step, and of one prompt (default 8)
  train_s=S                  of a step beside generation and judging (default 0: part of the rate)

the executor:
  workers=N                  of one node, a machine or a GPU (default: one per core of this machine)
  device=cpu|cuda            cuda: a check has its GPU alone too (default: as in RUN, else cpu)
  dispatch_ms=X              the driver's time for one request (default 0.3)
  mtbf_h=H repair_s=S        mean time until a node is lost, and until it is back (default: never)

the answer:
  hide=X                     share of the trainer's time (default 0.05)
  max_workers=N steps=N seed=N    (default 10000, 3, 0)

examples:
  kernelrl plan outputs/toy
  kernelrl plan outputs/toy rate=40 batch=1024 workers=8 --overlap
  kernelrl plan build_s=0.5 check_s=0.3 time_s=0.2 reference_s=0.5 rate=20 batch=512 workers=4
  kernelrl plan recipe=qwen3_8b_lora --device h100    the memory of a training on each device, and whether it fits"""
TRAINING = ("recipe=", "model=", "model.")
"""Words that begin so are about a training, not about workers."""
BY_HAND = ("build_s", "check_s", "time_s", "reference_s")
FEW = 20
"""Completions that ran: fewer say little about those that a better policy writes."""
TIMES = """
    SELECT policy, step, task_id, verdict FROM records
    WHERE stage = ? AND status <> 'infrastructure' ORDER BY time, id
"""


class Settings(BaseModel):
    """The words `key=value`, see `EPILOG`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    build_s: NonNegativeFloat | None = None
    check_s: NonNegativeFloat | None = None
    time_s: NonNegativeFloat | None = None
    reference_s: NonNegativeFloat | None = None
    rate: PositiveFloat | None = None
    batch: PositiveInt | None = None
    group: PositiveInt | None = None
    train_s: NonNegativeFloat = 0.0
    workers: PositiveInt = Field(default_factory=lambda: len(os.sched_getaffinity(0)))
    device: Literal["cpu", "cuda"] | None = None
    dispatch_ms: NonNegativeFloat = 0.3
    mtbf_h: PositiveFloat | None = None
    repair_s: NonNegativeFloat = 60.0
    hide: float = Field(default=0.05, gt=0, lt=1)
    max_workers: PositiveInt = 10_000
    steps: PositiveInt = 3
    seed: int = 0


@dataclass(frozen=True)
class Measured:
    """What is known about the completions of a run, or was given by hand."""

    groups: list[list[Job]]
    """Jobs by prompt. `reference` is that of the group, the same in all of its jobs."""
    gpu: bool
    batch: int | None = None
    """Completions per step."""
    group: int | None = None
    interval: int = 1
    """Optimizer steps from one batch to the next."""


@dataclass(frozen=True)
class Row:
    """What one number of workers comes to."""

    nodes: int
    workers: int
    """Over all nodes."""
    outcome: Outcome

    def to_json(self, steps: int) -> dict[str, Any]:
        """For `--json`, times in seconds."""
        outcome = self.outcome
        return {
            "workers": self.workers,
            "nodes": self.nodes,
            "verdicts_per_s": outcome.throughput,
            "busy": outcome.busy,
            "latency_s": {f"p{q}": outcome.latency(q) for q in (50, 95, 99)},
            "judging_s_per_step": outcome.judging_s / steps,
            "share_waiting": outcome.share_waiting,
            "retried": outcome.retried,
        }


def main(arguments: list[str]) -> int:
    """Run the command; returns its exit code."""
    if any(word.startswith(TRAINING) for word in arguments):
        from kernelrl.commands import plan_memory  # torch and transformers: seconds that the workers need not wait for

        return plan_memory.main(arguments)
    options = _parse(arguments)
    set_up_logging()
    runs = [Path(word) for word in options.words if "=" not in word]
    settings = _settings([word for word in options.words if "=" in word])
    if len(runs) > 1:
        raise UserError(f"one run at a time, not {', '.join(map(str, runs))}")
    by_hand = [name for name in BY_HAND if getattr(settings, name) is not None]
    if runs and by_hand:
        raise UserError(f"{by_hand[0]}: {runs[0]} says how long its stages take; leave out one of the two")
    if not runs and not by_hand:
        raise UserError("give the folder of a run, or stage times, e.g. build_s=0.5 check_s=0.3 time_s=0.2")
    measured = read_times(runs[0], options.stage) if runs else _given(settings)
    load = _load(measured, settings, _log(runs[0]) if runs else None, options.overlap)
    cluster = Cluster(
        nodes=1,
        workers=settings.workers,
        gpu=measured.gpu if settings.device is None else settings.device == "cuda",
        dispatch_s=settings.dispatch_ms / 1e3,
        mtbf_s=None if settings.mtbf_h is None else settings.mtbf_h * 3600,
        repair_s=settings.repair_s,
    )
    rows, answer = explore(cluster, load, settings)
    if options.json:
        steps = len(load.steps)
        found = {
            "stages": _means(measured),
            "load": {
                "batch": len(load.steps[0]),
                "generation_s": load.generation_s,
                "train_s": load.train_s,
                "overlap": load.overlap,
                "steps": steps,
            },
            "hide": settings.hide,
            "rows": [row.to_json(steps) for row in rows],
            "answer": None if answer is None else answer.to_json(steps),
        }
        print(json.dumps(found, indent=2))
    else:
        _print(measured, load, settings, rows, answer)
    return 0


def read_times(run: Path, stage: str = "grpo") -> Measured:
    """What the records of a stage say about times.

    Raises:
        UserError: there are no records, or none says where its time went.
    """
    rows = Query(run).rows(TIMES, [stage])
    if not rows:
        raise UserError(f"{run}: no record of stage {stage!r} in it; name another with --stage")
    groups: defaultdict[tuple[str, int, str], list[Job]] = defaultdict(list)
    by_step: Counter[int] = Counter()
    seen: set[tuple[str, str | None]] = set()
    device = "cpu"
    for row in rows:
        verdict = Verdict.model_validate_json(row["verdict"])
        if (job := Job.of(verdict)) is None:
            continue
        asked = row["task_id"], verdict.candidate
        # what an earlier run had judged is recalled in this one, and would have to be judged in another
        groups[row["policy"], row["step"], row["task_id"]].append(Job(row["task_id"]) if asked in seen else job)
        seen.add(asked)
        by_step[row["step"]] += 1
        device = verdict.device
    if not groups:
        raise UserError(
            f"{run}: none of its {len(rows)} records of stage {stage!r} says where its time went: they are of an "
            "earlier version; give stage times, e.g. build_s=0.5 check_s=0.3 time_s=0.2"
        )
    return Measured(
        groups=[sharing(jobs) for jobs in groups.values()],
        gpu=device != "cpu",
        batch=round(median(by_step.values())) if stage == "grpo" else None,
        group=Counter(map(len, groups.values())).most_common(1)[0][0],
        interval=round((max(by_step) - min(by_step)) / max(len(by_step) - 1, 1)) or 1,
    )


def sharing(jobs: Sequence[Job]) -> list[Job]:
    """The jobs of one task: some of them made the reference, and whoever comes first on a node makes all of it."""
    total = sum(job.reference for job in jobs)
    return [replace(job, reference=total) for job in jobs]


def _given(settings: Settings) -> Measured:
    build, check, timed, reference = (getattr(settings, name) or 0.0 for name in BY_HAND)
    if build + check + timed == 0:
        raise UserError("build_s, check_s and time_s are all 0: nothing to judge")
    return Measured([[Job("t", build=build, check=check, timed=timed, reference=reference)]], gpu=False)


def _log(run: Path) -> list[dict[str, Any]]:
    """The log of the GRPO stage that a folder is, or is part of, or holds."""
    paths = [folder / LOG for folder in (run / "grpo", run, run.parent)]
    return next((read_log(path) for path in paths if path.exists()), [])


def _load(measured: Measured, settings: Settings, log: list[dict[str, Any]] | None, overlap: bool) -> Load:
    batch = settings.batch or measured.batch
    if batch is None:
        raise UserError("batch: how many completions has a step? e.g. batch=512")
    rate = settings.rate
    if rate is None and log is not None and (besides := _seconds_besides_judging(log, measured.interval)) is not None:
        rate = (measured.batch or batch) / max(besides - settings.train_s, 1e-3)
    if rate is None:
        raise UserError("rate: how many completions are generated in a second? e.g. rate=20")
    return Load(
        steps=draw(measured.groups, batch, settings.group or measured.group or 8, settings.steps, settings.seed),
        generation_s=batch / rate,
        train_s=settings.train_s,
        overlap=overlap,
    )


def _seconds_besides_judging(log: list[dict[str, Any]], interval: int) -> float | None:
    """Time from one batch to the next, `interval` optimizer steps on, that is not judging (in seconds).

    None: the log does not say.
    """
    entries = [entry for entry in log if "judge_seconds" in entry]
    if len(entries) < 2:
        return None
    first, *others = entries
    seconds: float = (entries[-1]["seconds"] - first["seconds"]) / (entries[-1]["step"] - first["step"]) * interval
    return max(seconds - fmean(entry["judge_seconds"] for entry in others), 0.0)


def draw(groups: Sequence[Sequence[Job]], batch: int, group: int, steps: int, seed: int) -> list[list[Job]]:
    """Steps of `batch` jobs, in groups drawn from those that were measured; every group is a task of its own."""
    dice = random.Random(seed)
    drawn = []
    for step in range(steps):
        jobs: list[Job] = []
        while len(jobs) < batch:
            task = (step, len(jobs))
            jobs += [replace(job, task=task) for job in dice.choices(dice.choice(groups), k=group)]
        drawn.append(jobs[:batch])
    return drawn


def explore(cluster: Cluster, load: Load, settings: Settings) -> tuple[list[Row], Row | None]:
    """Rows for 1, 2, 5, 10, … nodes, and the one of the fewest nodes that hide the reward.

    Between two of those numbers it is found by bisection: more nodes are taken not to wait longer.
    """
    rows: dict[int, Row] = {}

    def row(nodes: int) -> Row:
        if nodes not in rows:
            outcome = simulate(replace(cluster, nodes=nodes), load, settings.seed)
            rows[nodes] = Row(nodes, nodes * cluster.workers, outcome)
        return rows[nodes]

    most = max(settings.max_workers // cluster.workers, 1)
    grid = list(_one_two_five(most))
    with track(len(grid), "simulating") as progress:
        for nodes in grid:
            row(nodes)
            progress.advance()
    shown = [rows[nodes] for nodes in grid]
    fewest = _bisect(grid, lambda nodes: row(nodes).outcome.share_waiting <= settings.hide)
    return shown, None if fewest is None else rows[fewest]


def _one_two_five(most: int) -> Iterator[int]:
    """1, 2, 5, 10, 20, … and `most`."""
    scale = 1
    while True:
        for digit in (1, 2, 5):
            if digit * scale >= most:
                yield most
                return
            yield digit * scale
        scale *= 10


def _bisect(grid: Sequence[int], hides: Callable[[int], bool]) -> int | None:
    """The smallest number that hides; None: none of the grid does."""
    found = next((index for index, nodes in enumerate(grid) if hides(nodes)), None)
    if found is None:
        return None
    low, high = grid[found - 1] if found else 0, grid[found]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if hides(middle) else (middle, high)
    return high


def _means(measured: Measured) -> dict[str, float]:
    """Means over the completions that were judged, and the share that was not (in seconds)."""
    jobs = [job for group in measured.groups for job in group]
    judged = [job for job in jobs if not job.known]
    means = {
        name: fmean([getattr(job, field) for job in judged] or [0.0])
        for name, field in (("static_s", "static"), ("build_s", "build"), ("check_s", "check"), ("time_s", "timed"))
    }
    means["reference_s"] = fmean(max(job.reference for job in group) for group in measured.groups)
    return means | {"recalled": 1 - len(judged) / len(jobs)}


def _print(measured: Measured, load: Load, settings: Settings, rows: list[Row], answer: Row | None) -> None:
    means, batch, steps = _means(measured), len(load.steps[0]), len(load.steps)
    out = make_console()
    out.print(
        f"A completion: build {means['build_s']:.3g} s, check {means['check_s']:.3g} s, timed alone "
        f"{means['time_s']:.3g} s; a task's reference {means['reference_s']:.3g} s; "
        f"{means['recalled']:.0%} recalled, or without a kernel.\n"
        f"A step: {batch:,} completions generated in {load.generation_s:.3g} s"
        f"{', judged meanwhile' if load.overlap else ''}, {load.train_s:.3g} s of training.",
        highlight=False,
    )
    if (num_run := sum(job.runs for group in measured.groups for job in group)) < FEW and measured.group is not None:
        out.print(f"[yellow]Only {num_run} of them were built: a policy that writes better keeps workers busier.[/]")
    table = Table(title=f"{settings.workers} workers a node")
    for column in ("workers", "nodes", "verdicts/s", "busy", "p50, s", "p95, s", "p99, s", "judging, s", "step waits"):
        table.add_column(column, justify="right")
    for row in sorted({*rows, *([answer] if answer else [])}, key=lambda row: row.nodes):
        outcome = row.outcome
        table.add_row(
            f"{row.workers:,}",
            f"{row.nodes:,}",
            _figure(outcome.throughput),
            f"{outcome.busy:.0%}",
            *(_figure(outcome.latency(q)) for q in (50, 95, 99)),
            _figure(outcome.judging_s / steps),
            f"{outcome.share_waiting:.1%}",
            style="bold" if row is answer else "",
        )
    out.print(table)
    if answer is not None:
        out.print(
            f"{answer.workers:,} workers on {answer.nodes:,} node(s) hide the reward: a step waits for it "
            f"{answer.outcome.share_waiting:.1%} of its time (hide={settings.hide:g}).",
            highlight=False,
        )
        return
    best = min(rows, key=lambda row: row.outcome.share_waiting)
    slowest = max(job.static + job.build + job.check + job.timed + job.reference for jobs in load.steps for job in jobs)
    out.print(
        f"No number of workers up to {settings.max_workers:,} hides the reward: with {best.workers:,} a step still "
        f"waits {best.outcome.share_waiting:.1%} of its time. The slowest judgement alone takes {slowest:.3g} s, the "
        f"driver {batch * settings.dispatch_ms / 1e3:.3g} s for a step; "
        + ("a larger batch hides more." if load.overlap else "--overlap judges while completions are generated."),
        highlight=False,
    )


def _figure(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}"


def _settings(words: list[str]) -> Settings:
    given = dict(word.split("=", 1) for word in words)
    for name in given:
        if name not in Settings.model_fields:
            close = difflib.get_close_matches(name, Settings.model_fields, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(Settings.model_fields)}"
            raise UserError(f"unknown setting {name!r}; {hint}")
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise UserError(f"{wrong['loc'][0]}={wrong['input']}: {wrong['msg']}") from None


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog="kernelrl plan",
        usage=USAGE,
        description="How many executor workers hide the reward, simulated from measured stage times.",
        epilog=EPILOG,
    )
    parser.add_argument("words", nargs="+", metavar="RUN", help="the run's folder, and settings key=value")
    parser.add_argument(
        "--stage", default="grpo", choices=["curate", "grpo", "eval"], help="whose times (default grpo)"
    )
    parser.add_argument("--overlap", action="store_true", help="completions are judged while others are generated")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    return parser.parse_intermixed_args(arguments)
