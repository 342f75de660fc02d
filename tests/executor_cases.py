"""What tests of the executor share: settings, requests, and a look at its processes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import TypeVar

import psutil

import candidate_files
from conftest import REFERENCE
from kernelrl.executor import Executor, Request
from kernelrl.task import Task
from kernelrl.verdict import Verdict

FAST = {
    **{"draws": "tests", "trials": 4, "min_pairs": 7, "max_pairs": 7, "memory_mb": 2048},
    **{"run_timeout_s": 5.0, "build_timeout_s": 300.0},  # a busy machine compiles slowly
}

Found = TypeVar("Found")
PATIENCE_S = 600.0
"""Time after which what a test waits for will not come (in seconds). A busy machine may need ten times as long."""


def request(source: str | None, task: Task | str = REFERENCE, dialect: str = "cpp") -> Request:
    task = Task(id="task", source=task) if isinstance(task, str) else task
    return candidate_files.request(source, task, dialect)


def judge(executor: Executor, source: str | None, task: Task | str = REFERENCE, dialect: str = "cpp") -> Verdict:
    return executor.evaluate([request(source, task, dialect)])[0]


PRYING = '''
import torch
from torch import nn


class Model(nn.Module):
    """A "task" that looks around: everything a candidate's process could do, without the static rules."""

    def forward(self, x):
        import fcntl, os, pathlib, resource, socket
        done = []

        def attempt(name, action):
            try:
                action()
                done.append(name)
            except Exception:
                pass

        {attempts}
        if done:
            raise RuntimeError("could " + ", ".join(done))
        return torch.relu(x) * 2.0


def get_inputs():
    return [torch.randn(256, 1024)]


def get_init_inputs():
    return []
'''


def task_that_pries(*attempts: tuple[str, str]) -> str:
    """A task whose reference tries each (name, expression), and fails with the names of those that succeed."""
    lines = [f"attempt({name!r}, lambda: {expression})" for name, expression in attempts]
    return PRYING.replace("{attempts}", "\n        ".join(lines))


def service_of(engine: Executor) -> psutil.Process:
    return psutil.Process(engine._service.pid)  # type: ignore[attr-defined]


def processes_of(engine: Executor) -> list[psutil.Process]:
    """The forkserver, the contestants and the compilers."""
    service = engine._service  # type: ignore[attr-defined]
    return psutil.Process(service.pid).children(recursive=True) if service else []


def wait_for(condition: Callable[[], Found]) -> Found:
    """What the condition gives as soon as it gives something."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with contextlib.suppress(psutil.NoSuchProcess):
            if found := condition():
                return found
        time.sleep(0.02)
    raise AssertionError(f"waited {PATIENCE_S:g} s in vain")
