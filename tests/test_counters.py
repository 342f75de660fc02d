"""`executor.counters`: what a kernel's process is counted to do, from outside and beyond its reach.

A virtual machine may show no counters of its processor. Those of the kernel go the same way, so they stand in here.
"""

from __future__ import annotations

import errno
import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from conftest import REFERENCE, RIGHT, Kept
from executor_cases import FAST, judge, request
from kernelrl import dialects
from kernelrl.executor.judging.pairs import NUM_NULLS
from kernelrl.executor.judging.tally import GROUPS, NUM_COUNTED, TIMES, Tally
from kernelrl.executor.processes import counters
from kernelrl.executor.processes.counters import (
    CYCLES,
    Event,
    NoCounters,
    accounts,
    counting,
    explain,
    try_counters,
)
from kernelrl.executor.processes.standing import stands, wait_until_it_stands
from kernelrl.strategies.feedback import Feedback
from kernelrl.verdict import Counters, GpuCounters, Verdict
from software_counters import FAULTS, NOTHING

PAGES = 3000
WORKER = f"""\
import ctypes, mmap, sys, threading

def touch():
    memory = mmap.mmap(-1, {PAGES} * mmap.PAGESIZE)
    for page in range({PAGES}):
        memory[page * mmap.PAGESIZE] = 1

print(flush=True)
for line in sys.stdin:
    match line.strip():
        case "touch":
            touch()
        case "touch in a thread":
            thread = threading.Thread(target=touch)
            thread.start()
            thread.join()
        case "hide":
            ctypes.CDLL(None).prctl(31, 0, 0, 0, 0)  # PR_TASK_PERF_EVENTS_DISABLE
    print(flush=True)
"""
FEW = 400
"""Page faults of Python's own."""


class Worker:
    """Runs between a question and its answer, and else stands, as a contestant does."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.pid = self.process.pid
        self._wait()

    def _wait(self) -> None:
        assert self.process.stdout is not None and self.process.stdout.readline()
        self.process.send_signal(signal.SIGSTOP)
        wait_until_it_stands(self.pid, partial(stands, self.pid))

    def ask(self, what: str) -> None:
        assert self.process.stdin is not None
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write(f"{what}\n")
        self._wait()


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.process.kill()
    worker.process.communicate()


@pytest.mark.parametrize("what", ["touch", "touch in a thread"])
def test_a_process_is_counted_with_the_threads_that_it_starts(worker: Worker, what: str) -> None:
    before = accounts(worker.pid)
    with counting(worker.pid, [FAULTS, NOTHING]) as read:
        worker.ask(what)
        faults, nothing = read()
    spent = accounts(worker.pid).since(before)
    assert faults is not None and PAGES <= faults <= PAGES + FEW and nothing == 0
    assert PAGES <= spent.page_faults <= PAGES + FEW and spent.context_switches > 0 and spent.cpu_s > 0


def test_who_is_counted_cannot_stop_it(worker: Worker) -> None:
    with counting(worker.pid, [FAULTS]) as read:
        worker.ask("hide")
        worker.ask("touch")
        (faults,) = read()
    assert faults is not None and faults >= PAGES


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
def test_perf_stat_counts_the_same(worker: Worker) -> None:
    with tempfile.NamedTemporaryFile("r") as told, counting(worker.pid, [FAULTS]) as read:
        command = ["perf", "stat", "-x,", "-o", told.name, "-e", "page-faults:u", "-p", str(worker.pid)]
        with subprocess.Popen([*command, "--control", "fd:0,1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as perf:
            assert perf.stdin is not None and perf.stdout is not None
            perf.stdin.write(b"enable\n")
            perf.stdin.flush()
            assert perf.stdout.readline().strip(b"\n\0") == b"ack"
            worker.ask("touch")
            perf.send_signal(signal.SIGINT)
        (line,) = (line for line in Path(told.name).read_text().splitlines() if "page-faults" in line)
        assert [int(line.split(",")[0])] == read()


def tally_of(worker: Worker, groups: list[list[Event]], calls: int) -> Tally:
    tally = Tally(worker.pid, groups)
    for _ in range(calls):
        with tally.nothing():
            worker.ask("nothing")
        with tally.call():
            worker.ask("touch")
    return tally


def test_what_asking_takes_is_taken_off(worker: Worker) -> None:
    tally = tally_of(worker, [[FAULTS], [NOTHING]], 2 * TIMES)
    counters = tally.counters()
    assert tally.uncounted == ""
    assert counters.cycles is not None and counters.cycles == pytest.approx(PAGES, abs=FEW)
    assert counters.instructions == 0 and counters.cache_misses is None
    assert counters.page_faults == pytest.approx(PAGES, abs=FEW) and counters.cpu_ms


def test_what_cannot_be_counted_is_not_known_and_the_reason_is_said(worker: Worker) -> None:
    tally = tally_of(worker, [[FAULTS], [Event("branches", 0, 12345)]], 2)
    assert tally.counters().branches is None and tally.counters().cycles
    assert tally.uncounted.startswith("the processor shows no counter of branches: ")


@pytest.mark.parametrize(
    ("error", "paranoid", "reason", "way_out"),
    [
        (errno.ENOENT, 2, "the processor shows no counter of cycles", "a virtual one has counters only where"),
        (errno.EACCES, 3, "kernel.perf_event_paranoid is 3", "sysctl -w kernel.perf_event_paranoid=2"),
        (errno.EPERM, 1, "perf_event_open is not allowed", "CAP_PERFMON"),
        (errno.ENOSYS, None, "perf_event_open is not allowed", "container"),
        (errno.EMFILE, 2, "perf_event_open: Too many open files", "perf_event_open(2)"),
    ],
)
def test_a_machine_without_counters_says_how_to_get_them(
    error: int, paranoid: int | None, reason: str, way_out: str
) -> None:
    found = explain(CYCLES, error, paranoid)
    assert str(found) == reason and way_out in found.way_out


TOUCHING = f"""\
  static const long size = {PAGES} * 4096L;
  char* pages = static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  madvise(pages, size, MADV_NOHUGEPAGE);
  for (long i = 0; i < size; i += 4096) pages[i] = 1;
  munmap(pages, size);
  prctl(31, 0, 0, 0, 0);
"""
FAULTING = RIGHT.replace('r"""\n', 'r"""\n#include <sys/mman.h>\n#include <sys/prctl.h>\n').replace(
    "  int64_t n =", f"{TOUCHING}  int64_t n ="
)


def test_a_kernel_is_counted_in_calls_of_its_own(executor_cache: Path, kept_executor: Kept) -> None:
    settings = {**FAST, "cache_dir": str(executor_cache), "static_rules": False}
    with kept_executor({**settings, "counters": True}) as engine:
        verdict = judge(engine, FAULTING)
    assert verdict.correct, verdict.feedback
    counters = verdict.counters
    assert counters is not None and counters.page_faults == pytest.approx(PAGES, abs=FEW)
    assert counters.context_switches is not None and counters.cpu_ms
    assert verdict.bound_bytes == 2 * 4 * 256 * 1024
    try:
        try_counters()
    except NoCounters as error:
        assert verdict.uncounted == f"{error}: {error.way_out}" and counters.instructions is None
    else:
        assert counters.instructions and counters.cycles
    assert "page faults" in Feedback()(verdict, FAULTING)


@pytest.mark.slow
def test_a_confined_kernel_is_counted_and_cannot_tell(executor_cache: Path) -> None:
    """It stops the counters of its own process (`prctl` in `TOUCHING`), and sees a row of calls as the timed ones."""
    settings = {**FAST, "cache_dir": str(executor_cache), "static_rules": False}
    told = json.dumps({"settings": settings, "request": request(FAULTING).model_dump(mode="json")})
    script = Path(__file__).with_name("software_counters.py")
    out = subprocess.run([sys.executable, script], input=told, capture_output=True, text=True, check=True).stdout
    asked, verdict = out.splitlines()
    found = Verdict.model_validate_json(verdict)
    assert found.correct and {"namespaces", "landlock", "seccomp"} <= {*found.layers}, found.feedback
    assert found.uncounted == "" and found.counters is not None and found.counters.instructions == 0
    assert found.counters.cycles == pytest.approx(PAGES, abs=FEW)
    assert asked.split() == ["nothing"] * NUM_NULLS + ["call"] * NUM_COUNTED


@pytest.mark.parametrize(
    ("settings", "source", "dialect", "reason"),
    [
        ({"timing": False}, RIGHT, "cpp", "only a kernel that is timed is counted (executor.timing=true)"),
        ({}, dialects.get("triton").example, "triton", "Triton's interpreter runs the kernel"),
    ],
)
def test_what_is_not_counted_says_why(
    settings: dict[str, Any], source: str, dialect: str, reason: str, executor_cache: Path, kept_executor: Kept
) -> None:
    settings = {**FAST, "cache_dir": str(executor_cache), "counters": True, **settings}
    task = REFERENCE if dialect == "cpp" else dialects.EXAMPLE_TASK.replace("1024, 1024", "16, 256")
    with kept_executor(settings) as engine:
        verdict = judge(engine, source, task, dialect)
    assert verdict.correct, verdict.feedback
    assert verdict.counters is None and verdict.uncounted.startswith(reason)


def test_more_threads_than_descriptors_are_not_counted(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "MAX_COUNTED_THREADS", 0)
    tally = tally_of(worker, [[FAULTS]], 1)
    assert tally.counters().cycles is None and tally.counters().page_faults
    assert tally.uncounted.startswith("the process has 1 threads, and those of 0 at most are counted: ")


def test_counters_are_read_only_where_they_are_asked_for(executor_cache: Path, kept_executor: Kept) -> None:
    with kept_executor({**FAST, "cache_dir": str(executor_cache), "static_rules": False}) as engine:
        verdict = judge(engine, RIGHT)
    assert verdict.correct and verdict.counters is None and verdict.uncounted == ""


def told(**fields: object) -> str:
    verdict = Verdict(
        task_id="t", candidate="c", status="correct", stage="correct", dialect="cpp", device="cpu", **fields
    )  # type: ignore[arg-type]
    return Feedback()(verdict, RIGHT)


def test_a_policy_hears_what_was_counted() -> None:
    counters = Counters(
        cycles=2e6,
        instructions=1.2e6,
        cache_references=1e5,
        cache_misses=38_000,
        branches=1e5,
        branch_misses=400,
        page_faults=12,
        context_switches=0,
        cpu_ms=1.5,
    )
    text = told(counters=counters, bound_bytes=2_097_152)
    misses = (
        "38% of its accesses to the outer cache (of AMD's the second level) miss (2.43 MB brought into it; the task "
        "needs 2.1 MB of memory), so it may be waiting for memory"
    )
    assert f"Counted: 0.6 instructions a cycle; {misses}; 0.4% of its branches are mispredicted." in text
    assert "One call costs 12 page faults, 1.5 ms of computing in all threads together." in text
    assert "waiting" not in told(counters=counters.model_copy(update={"cache_misses": 100.0}))
    assert "Counted" not in told(counters=Counters(page_faults=1)) and "None" not in told(counters=Counters())


def test_a_policy_hears_what_was_counted_on_a_gpu() -> None:
    counters = GpuCounters(
        **{"kernel": "relu", "launches": 2, "microseconds": 49.31, "dram": 0.914, "compute": 0.17},
        **{"read_bytes": 67_117_056, "written_bytes": 58_720_256, "occupancy": 0.834, "stalled_by": "a barrier"},
    )
    text = told(gpu_counters=(counters, GpuCounters(kernel="add", microseconds=1.0)))
    assert "relu (2 launches): 49.3 µs, the device's memory at 91% of the peak, its multiprocessors at 17%" in text
    assert "67.1 MB read, 58.7 MB written, 83% of the warps active, they wait most for a barrier." in text
    assert "add: 1 µs." in text


def test_each_group_is_of_two_counters_that_every_processor_has_at_once() -> None:
    assert all(len(group) == 2 for group in GROUPS)
    assert {event.name for group in GROUPS for event in group} <= {*Counters.model_fields}
