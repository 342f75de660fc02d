"""Does curation keep an executor busy, and what do many tasks cost?

    python benchmarks/curation_scale.py                        # 64 workers, a judge of 0.3 s
    python benchmarks/curation_scale.py --tasks 0 --stream 10000 100000

The judge is a stand-in that sleeps, about as long as it is told and seldom five times as long; everything around it is
curation's own: teachers, prompts, ledger, the table of proposals. `busy` is the share of the workers' time that they
judged. `stream` is all of `kernelrl curate` on tasks of the synthesiser, in a process of its own for each number: tasks
per second of each step, and the most memory (in MB) that the process had until its end. What runs programs in other
processes is a stand-in that costs nothing: the filters keep every task, an operator graph is one of 256 that were
traced, the teacher writes one kernel for each task, and it is right. Not covered: other sources, whose tasks are in
memory while they are read, `curate.repairs`, and a selection by speedup.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import random
import resource
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest import mock

from kernelrl.configs import compose_config, read_node
from kernelrl.data import curate, decontamination, filters, sources
from kernelrl.data.build import build
from kernelrl.data.decontamination import fingerprint
from kernelrl.data.decontamination.fingerprint import Fingerprint
from kernelrl.data.graph.generate import tasks
from kernelrl.data.graph.graph import Dials
from kernelrl.data.teachers import Proposal, Teacher
from kernelrl.data.verification import Verifier
from kernelrl.executor import Request
from kernelrl.executor.api import NodeHealth
from kernelrl.records import Ledger
from kernelrl.task import Task
from kernelrl.verdict import Verdict

NUM_TRACED = 256


class Judge:
    """Stands in for an executor: so many workers, each of which sleeps."""

    def __init__(self, workers: int, seconds: float):
        self._slots, self._seconds, self._lock = threading.Semaphore(workers), seconds, threading.Lock()
        self.worked = 0.0

    def health(self) -> list[NodeHealth]:
        return [NodeHealth(node="stand-in", alive=True, queued=0, running=0, judged=0, retried=0)]

    def stream(self, requests: Sequence[Request]) -> Iterator[tuple[int, Verdict]]:
        for index, request in enumerate(requests):
            draw = random.Random(request.task.id)
            seconds = self._seconds * (5 if draw.random() < 0.02 else draw.uniform(0.5, 1.5))
            with self._slots:
                time.sleep(seconds)
            with self._lock:
                self.worked += seconds
            yield (
                index,
                Verdict(
                    task_id=request.task.id,
                    candidate="c",
                    status="correct",
                    stage="correct",
                    dialect="cpp",
                    device="cpu",
                ),
            )


class Echo(Teacher):
    """Writes something for every task at once."""

    name, dialects = "echo", frozenset({"cpp"})

    def propose(self, task: Task, dialect: str) -> list[Proposal]:
        return [Proposal(f"because of {task.id} " * 100, f"# {task.id}\n{task.source}")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=0.3, help="that a judgement takes")
    parser.add_argument("--tasks", type=int, default=4000, help="that are judged to measure how busy the workers are")
    parser.add_argument("--stream", type=int, nargs="*", default=[10_000], help="numbers of tasks to curate")
    options = parser.parse_args()
    results: dict[str, object] = {"verification": _verify(options)} if options.tasks else {}
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as processes:
        results["stream"] = list(processes.map(_stream, options.stream))
    print(json.dumps(results, indent=2))


def _verify(options: argparse.Namespace) -> dict[str, float]:
    judge = Judge(options.workers, options.seconds)
    wanted = [Task(id=f"t{number}", source="x = 1\n") for number in range(options.tasks)]
    with tempfile.TemporaryDirectory() as folder:
        verifier = Verifier(judge, Ledger(Path(folder)), "short", options.workers)  # type: ignore[arg-type]
        started = time.perf_counter()
        judged = sum(1 for _ in verifier.verify(wanted, [(Echo(), "cpp")], None, "verifying"))
        seconds = time.perf_counter() - started
    busy = judge.worked / (seconds * options.workers)
    return {"kernels_per_second": round(judged / seconds, 1), "busy": round(busy, 3), "memory_mb": _memory_mb()}


def _stream(number: int) -> dict[str, dict[str, float]]:
    """A whole `kernelrl curate` of so many tasks of the synthesiser: of each step its rate, and the memory after it."""
    steps: dict[str, dict[str, float]] = {}

    def measured(step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter()
            result = function(*args, **kwargs)
            per_second = number / (time.perf_counter() - started)
            steps[step] = {"tasks_per_second": round(per_second, 1), "memory_mb": _memory_mb()}
            return result

        return run

    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        words = [f"output_dir={name}", "tasks=graph", f"tasks.num_train={number}", "tasks.num_heldout=20"]
        words += ["tasks.spare=1", "selection=all", "curate.num_triples=null", "curate.num_heldout_triples=null"]
        words += [f"curate.verified={name}/verified", f"curate.folder={name}/data", f"executor.cache_dir={name}/cache"]
        cfg = compose_config("curate", words)
        dials = read_node(Dials, cfg.tasks.dials, "tasks.dials")
        settings = decontamination.read_settings(cfg.decontamination)
        some = [fingerprint.fingerprint(task.source, settings) for task in islice(tasks(1, dials), NUM_TRACED)]
        steps["start"] = {"memory_mb": _memory_mb()}
        for module, attribute, stand_in in (
            (filters, "run_apart", _keep_all),
            (fingerprint, "run_apart", partial(_borrow, some)),
            (curate, "make_executor", lambda _: contextlib.nullcontext(Judge(64, 0.0))),
            (curate, "make_teachers", lambda _: [(Echo(), "cpp")]),
            (sources, "load", measured("drawn", sources.load)),
            (filters, "probe_all", measured("filtered", filters.probe_all)),
            (decontamination, "apply", measured("decontaminated", decontamination.apply)),
            (curate, "_verify", measured("verified", curate._verify)),
            (curate, "build", measured("built", build)),
        ):
            stack.enter_context(mock.patch.object(module, attribute, stand_in))
        folder = curate.run(cfg)
        summary = json.loads((folder / "summary.json").read_text())
    return {"tasks": {name: summary[name] for name in ("tasks_drawn", "tasks_train", "triples")}, **steps}


def _keep_all(_: object, items: Iterable[Task], limits: object) -> Iterator[list[tuple[Task, None]]]:
    """Stands in for the workers that run every task a few times."""
    return ([(task, None)] for task in items)


def _borrow(
    some: Sequence[Fingerprint], _: object, items: Iterable[str], limits: object, chunk: int
) -> Iterator[list[tuple[str, Fingerprint]]]:
    """Stands in for the workers that trace every task: each has the operator graph of one of some."""
    for number, source in enumerate(items):
        exact = hashlib.sha256(source.encode()).hexdigest()[:32]
        yield [(source, replace(some[number % len(some)], exact=exact))]


def _memory_mb() -> float:
    """The most that this process has had (in MB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


if __name__ == "__main__":
    main()
