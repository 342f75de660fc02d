"""What tests of the executor share: settings, requests, candidate files, and a look at its processes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from conftest import REFERENCE
from kernelrl.candidate import Candidate
from kernelrl.executor import Executor, Request
from kernelrl.task import Task
from kernelrl.verdict import Verdict

HERE = Path(__file__).parent
TASKS = {path.stem: Task.from_file(path) for path in sorted((HERE / "tasks").glob("*.py"))}
EXPLOITS = sorted((HERE / "exploits").glob("*.py"))
HONEST = sorted((HERE / "honest").glob("*.py"))
GPU = sorted((HERE / "gpu").glob("*/*.py"))
FAST = {"trials": 4, "min_pairs": 7, "max_pairs": 7, "run_timeout_s": 5.0, "memory_mb": 2048}


def request(source: str | None, task: Task | str = REFERENCE, dialect: str = "cpp") -> Request:
    if isinstance(task, str):
        task = Task(id="task", source=task)
    return Request(task=task, candidate=source and Candidate(source=source, dialect=dialect), dialect=dialect)


def judge(executor: Executor, source: str | None, task: Task | str = REFERENCE, dialect: str = "cpp") -> Verdict:
    return executor.evaluate([request(source, task, dialect)])[0]


def header(path: Path) -> dict[str, str]:
    """Lines `# key: value` at the top of a candidate file: `task`, `dialect`; an exploit has `class` and `expect`."""
    lines = path.read_text().splitlines()[:6]
    return dict(line[2:].split(": ", 1) for line in lines if line.startswith("# ") and ": " in line)


def from_file(path: Path) -> Request:
    found = header(path)
    return request(path.read_text(), TASKS[found.get("task", "relu_scale")], found["dialect"])


def service_of(engine: Executor) -> psutil.Process:
    return psutil.Process(engine._service.pid)  # type: ignore[attr-defined]


def processes_of(engine: Executor) -> list[psutil.Process]:
    """The forkserver, the contestants and the compilers."""
    service = engine._service  # type: ignore[attr-defined]
    return psutil.Process(service.pid).children(recursive=True) if service else []


def wait_for(condition: Callable[[], list[psutil.Process]]) -> list[psutil.Process]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(psutil.NoSuchProcess):
            if found := condition():
                return found
        time.sleep(0.02)
    raise AssertionError("waited a minute in vain")
