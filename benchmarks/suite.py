"""Who solves the embedded suite, and how fast: eager PyTorch, torch.compile, the teachers by rules, and policies.

    python benchmarks/suite.py                                  # those that need no policy, into results/suite.json
    python benchmarks/suite.py --contenders template inductor --categories softmax loss --out /tmp/suite.json
    python benchmarks/suite.py --contenders --policies outputs/demo-suite       # adds what kernelrl eval has found

A teacher's first proposal (its best level) for each task counts, in C++; a task that it cannot write is a failure.
`eager` is the reference itself as a candidate, and `torch.compile` is timed in turn with that, in the mode `default`:
it counts as correct where it compiles and computes the same. An interrupted run goes on: verdicts are remembered.
Policies are read from the results of `kernelrl eval tasks=suite eval.tasks=null …`. Lines of contenders that are not
named stay in the file as they were.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from math import exp
from pathlib import Path
from typing import Any

from kernelrl import __version__
from kernelrl.candidate import Candidate
from kernelrl.configs import compose_config
from kernelrl.data.sources.suite import read_suite
from kernelrl.data.teachers import make_teacher
from kernelrl.eval.export import to_markdown
from kernelrl.eval.figure import Settings
from kernelrl.eval.metrics import summarize
from kernelrl.eval.results import read_results
from kernelrl.eval.table import format_estimate
from kernelrl.executor import make_executor
from kernelrl.executor.api import Executor, Request
from kernelrl.executor.machine import fingerprint
from kernelrl.records import Record, write_json
from kernelrl.task import Task
from kernelrl.verdict import Verdict

CONTENDERS = ("template", "inductor", "eager", "torch.compile")
OUT = Path(__file__).parent / "results" / "suite.json"
KINDS = ("categories", "levels")
FIGURES = ("compiled", "correct", "fast_1", "speedup", "speedup_all", "of_limit")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contenders", nargs="*", choices=CONTENDERS, default=CONTENDERS)
    parser.add_argument("--policies", type=Path, metavar="RUN", help="an evaluation of policies on the suite")
    parser.add_argument("--categories", nargs="+", help="only these")
    parser.add_argument("--cache", default="~/.cache/kernelrl", help="folder of builds and verdicts")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    tasks = [task for task in read_suite() if task.category in (options.categories or [task.category])]
    found: dict[str, Any] = {"num_tasks": len(tasks), "contenders": {}}
    if options.out.exists():
        found = json.loads(options.out.read_text())
    here = {"version": __version__, "machine": fingerprint(), "cores": len(os.sched_getaffinity(0))}
    for name in options.contenders:
        found["contenders"][name] = here | enter(name, tasks, options.cache)
        write_json(options.out, found)
    if options.policies:
        found["contenders"] |= evaluated(options.policies, tasks)
        write_json(options.out, found)
    print(leaderboard(found))


def enter(name: str, tasks: list[Task], cache: str) -> dict[str, Any]:
    """The line of one contender."""
    settings = {"cache_dir": cache, "compile_baseline": "default" if name == "torch.compile" else None}
    with make_executor(settings) as executor:
        if name in ("eager", "torch.compile"):
            kernels = {task.id: task.source.replace("class Model(", "class ModelNew(") for task in tasks}
            verdicts = judge(tasks, kernels, "python", executor)
            return describe(tasks, verdicts if name == "eager" else list(map(as_compiled, verdicts)))
        cfg = compose_config("curate", [f"teacher={name}"]).teacher
        kernels = {}
        for task, proposal in make_teacher(cfg, "cpp").proposals(tasks, "cpp"):
            kernels.setdefault(task.id, proposal.source)
        return describe(tasks, judge(tasks, kernels, "cpp", executor))


def judge(tasks: list[Task], kernels: dict[str, str], dialect: str, executor: Executor) -> list[Verdict]:
    candidates = [kernels.get(task.id) for task in tasks]
    return executor.evaluate(
        [
            Request(task=task, candidate=source and Candidate(source=source, dialect=dialect), dialect=dialect)
            for task, source in zip(tasks, candidates, strict=True)
        ]
    )


def as_compiled(verdict: Verdict) -> Verdict:
    """The verdict that `torch.compile` would get as a candidate, from one on the reference's own code."""
    if verdict.compiled_ms is None or verdict.reference_ms is None or verdict.speedup_compiled is None:
        failed = {"status": "compile_error", "stage": "legal"} if verdict.correct else {}
        return verdict.model_copy(update={"speedup": None, "candidate_ms": None, **failed})
    ratio = verdict.reference_ms / verdict.compiled_ms
    speedup = verdict.speedup_compiled.model_copy(update={"median": ratio, "low": ratio, "high": ratio})
    return verdict.model_copy(update={"speedup": speedup, "candidate_ms": verdict.compiled_ms})


def describe(tasks: list[Task], verdicts: list[Verdict]) -> dict[str, Any]:
    """The figures over all tasks, by category and by level, and every task's status and speedup."""
    records = [
        Record.of(id=task.id, stage="eval", policy="", prompt="", completion="", verdict=verdict)
        for task, verdict in zip(tasks, verdicts, strict=True)
    ]
    summary = summarize(records, tasks, Settings(k=(1,), fast_p=(1.0,), bootstrap=2000, seed=0))
    return table_of(summary) | {
        "tasks": {
            task.id: [verdict.status, None if verdict.speedup is None else round(verdict.speedup.median, 3)]
            for task, verdict in zip(tasks, verdicts, strict=True)
        }
    }


def evaluated(run: Path, tasks: list[Task]) -> dict[str, Any]:
    """The lines of the policies of an evaluation, named after it: of each task how many samples are right, and the
    geometric mean of their speedups."""
    results = read_results(run)
    if {each.digest for each in results.tasks} != {task.digest for task in tasks}:
        raise SystemExit(f"{run}: was not evaluated on the whole suite; see kernelrl eval tasks=suite eval.tasks=null")
    origin = {name: getattr(results, name) for name in ("version", "machine")}
    lines = {}
    for name, policy in results.policies.items():
        found = {"figures": {key: estimate.model_dump() for key, estimate in policy.figures.items()}}
        found |= {kind: {key: group.model_dump() for key, group in getattr(policy, kind).items()} for kind in KINDS}
        right, speedup = policy.by_task["correct"], policy.by_task["speedup"]
        by_task = {
            task.id: [
                f"{right.totals[n]:.0f} of {right.counts[n]:.0f} correct",
                round(exp(total / count), 3) if count else None,
            ]
            for n, (task, total, count) in enumerate(zip(results.tasks, speedup.totals, speedup.counts, strict=True))
        }
        lines[f"{results.name}, {name}"] = origin | table_of(found) | {"tasks": by_task}
    return lines


def table_of(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of a summary over all tasks, with intervals, and by category and by level."""
    values = {
        kind: {name: {f: group["figures"][f]["value"] for f in FIGURES} for name, group in summary[kind].items()}
        for kind in KINDS
    }
    return {"all": {name: summary["figures"][name] for name in FIGURES}, **values}


def leaderboard(found: dict[str, Any]) -> str:
    """The table of docs/results.md."""
    header = ["", "correct, %", "fast_1, %", "speedup of correct, ×", "speedup, failures as 1, ×"]
    rows = [
        [name, *(format_estimate(it, line["all"][it]) for it in ("correct", "fast_1", "speedup", "speedup_all"))]
        for name, line in found["contenders"].items()
    ]
    return to_markdown(header, rows)


if __name__ == "__main__":
    main()
