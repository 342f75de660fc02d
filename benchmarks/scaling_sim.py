"""Where does the executor stop scaling, and is the model that says so right?

    python benchmarks/scaling_sim.py                    # a quarter of an hour on two cores
    python benchmarks/scaling_sim.py --validate 5       # the comparison with the real engine only, five times
    python benchmarks/scaling_sim.py --build-s 0.5 --check-s 0.3 --time-s 0.1 --reference-s 0.5   # the model only

Validation: the local engine judges a batch as GRPO sends it (groups of one task; C++ kernels that build, some that do
not, some wrong, some without a kernel, repeats). Each verdict says where its time went. `same` is the real time of the
batch over the model's from the stage times of these very verdicts; `other` over the model's from the times of the run
before: what `kernelrl plan` does. Then the model alone, with the stage times of the runs, for 1 to 10,000 workers: one
step of a fixed number of completions, and as many completions as keep every worker busy.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean
from typing import Any

from rich.table import Table

from kernelrl import dialects
from kernelrl.candidate import Candidate
from kernelrl.commands.plan import draw, sharing
from kernelrl.console import console, make_console
from kernelrl.executor import Request, make_executor
from kernelrl.executor.engines.simulation import Cluster, Job, Load, Outcome, simulate
from kernelrl.task import Task
from kernelrl.verdict import Verdict

EXAMPLE = dialects.get("cpp").example
WAYS = {
    "right": lambda mark: EXAMPLE.replace('SOURCE = """', f'SOURCE = """// {mark}'),
    "wrong": lambda mark: EXAMPLE.replace('SOURCE = """', f'SOURCE = """// {mark}').replace("2.0f", "3.0f"),
    "broken": lambda mark: EXAMPLE.replace('SOURCE = """', f'SOURCE = """// {mark}\nnot C++;'),
    "torch": lambda mark: dialects.EXAMPLE_TASK.replace("class Model", f"# {mark}\nclass ModelNew"),
}
"""What a policy writes, by how it ends."""
GROUP = ["right", "right", "right", "wrong", "broken", "torch", "right", "repeat"]
WORKERS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
BUSY = 10
"""Completions for each worker where all are to be kept busy."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--validate", type=int, metavar="N", help="run the real engine N times, and no more")
    parser.add_argument("--groups", type=int, default=8, help="of eight completions in a real run")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="of the real engine")
    parser.add_argument("--batch", type=int, default=4096, help="completions of the fixed step")
    parser.add_argument("--node", type=int, default=1, help="workers of a node")
    parser.add_argument("--dispatch-ms", type=float, help="the driver's time for a request; otherwise measured")
    for name in ("build", "check", "time", "reference"):
        parser.add_argument(f"--{name}-s", type=float, default=0.0, help="instead of a real run")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    options = parser.parse_args()
    result: dict[str, Any] = {"cores": len(os.sched_getaffinity(0))}
    given = Job(0, 0.0, options.build_s, options.check_s, options.time_s, options.reference_s)
    groups = [[given]]
    if not given.runs:
        result["runs"], groups = validate(options.validate or 3, options.groups, options.workers)
    dispatch_ms = options.dispatch_ms if options.dispatch_ms is not None else driver_ms()
    result["dispatch_ms"] = dispatch_ms
    if options.validate is None:
        cluster = Cluster(1, options.node, dispatch_s=dispatch_ms / 1e3)
        result["fixed"] = scale(groups, cluster, lambda workers: options.batch)
        result["busy"] = scale(groups, cluster, lambda workers: max(BUSY * workers, 100))
    print(json.dumps(result)) if options.json else _show(result, options.batch)


def validate(num_runs: int, num_groups: int, workers: int) -> tuple[list[dict[str, float]], list[list[Job]]]:
    """Real runs beside simulated ones, and the jobs of the last run in their groups."""
    runs: list[dict[str, float]] = []
    before: list[list[Job]] | None = None
    for number in range(num_runs):
        requests = batch(number, num_groups)
        with (
            tempfile.TemporaryDirectory() as cache,
            make_executor({"cache_dir": cache, "workers": workers}) as executor,
        ):
            executor.evaluate(batch(-1, 1))  # the service, the loader's header
            started = time.perf_counter()
            verdicts = executor.evaluate(requests)
            real = time.perf_counter() - started
        unknown = sum(Job.of(verdict) is None for verdict in verdicts)
        if unknown:
            console.print(f"run {number}: left out, the machine failed {unknown} verdict(s)", highlight=False)
            continue
        groups = jobs_of(verdicts)
        run = {"real_s": real, "same_s": simulated(groups, workers)}
        if before is not None:
            drawn = draw(before, len(requests), len(GROUP), steps=9, seed=0)
            run["other_s"] = fmean(simulated([jobs], workers) for jobs in drawn)
        before = groups
        runs.append(run)
        console.print(f"run {number}: {run}", highlight=False)
    assert before is not None
    return runs, before


def batch(number: int, num_groups: int) -> list[Request]:
    """A step of GRPO: groups of completions of one task each, all new."""
    requests = []
    for group in range(num_groups):
        mark = f"{number} {group}"
        rows = 256 + 8 * group
        task = Task(id=mark, source=dialects.EXAMPLE_TASK.replace("1024, 1024", f"{rows}, 1024"))
        sources = [WAYS[way](f"{mark} {index}") for index, way in enumerate(GROUP) if way != "repeat"]
        sources += sources[: GROUP.count("repeat")]
        candidates = [Candidate(source=source, dialect="cpp") for source in sources]
        requests += [Request(task=task, candidate=candidate, dialect="cpp") for candidate in candidates]
    return requests


def jobs_of(verdicts: list[Verdict]) -> list[list[Job]]:
    """What the verdicts say about times, by group; a group's reference is that of all of its jobs."""
    jobs = [Job(verdict.task_id) if verdict.cached else job for verdict in verdicts if (job := Job.of(verdict))]
    return [sharing(jobs[start : start + len(GROUP)]) for start in range(0, len(jobs), len(GROUP))]


def simulated(groups: list[list[Job]], workers: int) -> float:
    """Time of a batch on a node like this machine (in seconds)."""
    here = Cluster(nodes=1, workers=workers)
    return simulate(here, Load([[job for group in groups for job in group]])).judging_s


def driver_ms() -> float:
    """The client's processor time for one request, its verdict included (in milliseconds)."""
    requests = batch(-2, 8)
    with tempfile.TemporaryDirectory() as cache, make_executor({"cache_dir": cache, "timing": False}) as executor:
        executor.evaluate(requests)
        cpu = time.process_time()
        for _ in range(10):
            executor.evaluate(requests)  # all recalled
        return (time.process_time() - cpu) / (10 * len(requests)) * 1e3


def scale(groups: list[list[Job]], cluster: Cluster, size: Callable[[int], int]) -> list[dict[str, float]]:
    """One step of `size(workers)` completions, for more and more workers."""
    rows = []
    for workers in WORKERS:
        if workers % cluster.workers:
            continue
        number = size(workers)
        console.print(f"{workers} workers, {number} completions", highlight=False)
        started = time.perf_counter()
        load = Load(draw(groups, number, len(GROUP), 1, seed=0))
        outcome = simulate(replace(cluster, nodes=workers // cluster.workers), load)
        rows.append(_row(workers, number, outcome) | {"simulated_in_s": time.perf_counter() - started})
    return rows


def _row(workers: int, number: int, outcome: Outcome) -> dict[str, float]:
    return {
        "workers": workers,
        "completions": number,
        "verdicts_per_s": outcome.throughput,
        "busy": outcome.busy,
        "judging_s": outcome.judging_s,
        **{f"p{q}_s": outcome.latency(q) for q in (50, 95, 99)},
    }


def _show(result: dict[str, Any], number: int) -> None:
    out = make_console()
    if "runs" in result:
        table = Table(title=f"the real engine beside the model, on {result['cores']} cores")
        for column in ("run", "real, s", "model: same, s", "real / same", "model: other, s", "real / other"):
            table.add_column(column, justify="right")
        for index, run in enumerate(result["runs"]):
            other = run.get("other_s")
            table.add_row(
                str(index),
                f"{run['real_s']:.2f}",
                f"{run['same_s']:.2f}",
                f"{run['real_s'] / run['same_s']:.3f}",
                *(("–", "–") if other is None else (f"{other:.2f}", f"{run['real_s'] / other:.3f}")),
            )
        out.print(table)
    out.print(f"the driver takes {result['dispatch_ms']:.2f} ms for a request", highlight=False)
    titles = {"fixed": f"one step of {number:,} completions", "busy": f"{BUSY} completions for each worker"}
    for name, title in titles.items():
        if name not in result:
            continue
        table = Table(title=title)
        for column in ("workers", "completions", "verdicts/s", "busy", "p50, s", "p95, s", "p99, s", "judging, s"):
            table.add_column(column, justify="right")
        for row in result[name]:
            table.add_row(
                f"{row['workers']:,}",
                f"{row['completions']:,}",
                f"{row['verdicts_per_s']:,.1f}",
                f"{row['busy']:.0%}",
                *(f"{row[key]:.2f}" for key in ("p50_s", "p95_s", "p99_s", "judging_s")),
            )
        out.print(table)
        out.print(_limit(result[name]), highlight=False)


def _limit(rows: list[dict[str, float]]) -> str:
    """Where ten times the workers no longer bring five times the verdicts."""
    at = {row["workers"]: row["verdicts_per_s"] for row in rows}
    for workers, throughput in at.items():
        if (more := at.get(10 * workers)) is not None and more < 5 * throughput:
            gain = more / throughput
            return f"stops scaling after {workers:,} workers: ten times as many give {gain:.1f} times the verdicts"
    return "scales to the end"


if __name__ == "__main__":
    main()
