"""Does curation keep an executor busy, and what do many tasks cost?

    python benchmarks/curation_scale.py                        # 64 workers, a judge of 0.3 s
    python benchmarks/curation_scale.py --workers 256 --tasks 20000 --stream 10000 100000

The judge is a stand-in that sleeps, about as long as it is told and seldom five times as long; everything around it is
curation's own: teachers, prompts, ledger, the table of proposals. `busy` is the share of the workers' time that they
judged. `stream` draws tasks with the synthesiser into `tasks.parquet` and has one kernel for each judged in no time
into `proposals.parquet`, then makes the data set of them, in a process of its own for each number: tasks per second of
each step, and the most memory that the process had after it. Not covered: sources, whose tasks are all in memory until
the filters and decontamination have chosen among them.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace

from kernelrl.configs import compose_config, read_node
from kernelrl.data.build import DROPPED, build
from kernelrl.data.curate import proposal_row
from kernelrl.data.graph.generate import tasks
from kernelrl.data.graph.graph import Dials
from kernelrl.data.selection import make_selector
from kernelrl.data.stored import StoredTasks
from kernelrl.data.tables import DRAWN_COLUMNS, PROPOSAL_COLUMNS, PROPOSALS, TASKS, write_table
from kernelrl.data.teachers import Proposal, Teacher
from kernelrl.data.tokens import count_words
from kernelrl.data.verification import Verifier
from kernelrl.executor import Request
from kernelrl.records import Ledger
from kernelrl.stage_folder import open_stage
from kernelrl.task import Task
from kernelrl.verdict import Verdict


class Judge:
    """Stands in for an executor: so many workers, each of which sleeps."""

    def __init__(self, workers: int, seconds: float):
        self._slots, self._seconds, self._lock = threading.Semaphore(workers), seconds, threading.Lock()
        self.worked = 0.0

    def health(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(alive=True)]

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
    parser.add_argument("--tasks", type=int, default=4000)
    parser.add_argument("--stream", type=int, nargs="*", default=[10_000], help="numbers of tasks to draw and verify")
    options = parser.parse_args()
    results: dict[str, object] = {"verification": _verify(options)}
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


def _stream(number: int) -> dict[str, float]:
    """Tasks from the synthesiser to verified proposals, a row group at a time."""
    dials = read_node(Dials, compose_config("curate", ["tasks=graph"]).tasks.dials, "tasks.dials")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        started, before = time.perf_counter(), _memory_mb()
        drawn = ({"split": "train", "task": task.model_dump_json()} for task in islice(tasks(0, dials), number))
        write_table(folder / TASKS, drawn, DRAWN_COLUMNS)
        synthesised, after_synthesis = time.perf_counter(), _memory_mb()
        verifier = Verifier(Judge(64, 0.0), Ledger(folder / "records"), "short", 64)  # type: ignore[arg-type]
        verified = verifier.verify(StoredTasks(folder / TASKS, "train"), [(Echo(), "cpp")], None, "verifying")
        rows = ({"split": "train", **proposal_row(proposed, verdict)} for proposed, verdict in verified)
        write_table(folder / PROPOSALS, rows, PROPOSAL_COLUMNS)
        (folder / DROPPED).touch()
        verified_at, after_verification = time.perf_counter(), _memory_mb()
        cfg = compose_config("curate", ["selection=all", "curate.num_triples=null", "curate.num_heldout_triples=null"])
        settings: dict[str, object] = {}
        with open_stage("curate", folder, settings) as stage:
            stage.finish({"machines": [], "proposals": number, "proposals_by_status": {"correct": number}})
        with open_stage("curate", folder / "data", settings) as stage:
            select = make_selector(cfg.selection, timing=False)
            build(cfg, folder, select, count_words, stage.path, {})
        ended = time.perf_counter()
    return {
        "tasks": number,
        "synthesised_per_second": round(number / (synthesised - started), 1),
        "verified_per_second": round(number / (verified_at - synthesised), 1),
        "built_per_second": round(number / (ended - verified_at), 1),
        "memory_mb_at_start": before,
        "memory_mb_after_synthesis": after_synthesis,
        "memory_mb_after_verification": after_verification,
        "memory_mb_at_end": _memory_mb(),
    }


def _memory_mb() -> float:
    """The most that this process has had (in MB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


if __name__ == "__main__":
    main()
