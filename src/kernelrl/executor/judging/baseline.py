"""The stronger baseline: a task's reference under `torch.compile`."""

from __future__ import annotations

from functools import partial
from typing import Any

from kernelrl.errors import TaskError
from kernelrl.executor.api import ExecutorSettings
from kernelrl.executor.judging import compare
from kernelrl.executor.judging.arena import Arena, Case
from kernelrl.executor.judging.timing import time_call
from kernelrl.executor.processes.cores import Cores
from kernelrl.executor.processes.failures import ProcessFailure
from kernelrl.executor.processes.process import Process
from kernelrl.task import Task

COMPILE_TIMEOUT_S = 180.0


class NoBaseline(Exception):
    """`torch.compile` cannot do it. The text says why."""


class Baseline:
    """The compiled reference in a process of its own.

    Args:
        task: the task.
        process: where it runs; it may run the compiler. Closed with the baseline.
        cores: says when it may run.
        settings: limits of time.
        load: the question that loads the reference.
        arena_bytes: memory for its inputs.
        case: what it must get right.

    Raises:
        NoBaseline: it does not compile, or its outputs are wrong.
    """

    def __init__(
        self,
        task: Task,
        process: Process,
        cores: Cores,
        settings: ExecutorSettings,
        load: dict[str, Any],
        arena_bytes: int,
        case: Case,
    ):
        self.process = process
        self._task = task
        self._cores = cores
        self._settings = settings
        self._arena = Arena(arena_bytes, settings)
        try:
            self._ask(load | {"compiled": settings.compile_baseline}, settings.load_timeout_s)
            self._arena.attach(partial(cores.ask, process, timeout=settings.load_timeout_s))

            def ask(message: dict[str, Any]) -> dict[str, Any]:
                return self._ask(message, settings.run_timeout_s)

            self._arena.arrange(case.shape.layout, ask)
            self._arena.put(case.image, case.outputs, ask)
            assert case.expected is not None
            outputs = self._arena.outputs(self._ask({"do": "run"}, COMPILE_TIMEOUT_S), ask)
            if not compare.all_accepted(case.expected, [self._arena.tensor(process, each) for each in outputs]):
                raise NoBaseline("torch.compile's outputs are wrong")
        except ProcessFailure as error:
            process.close()
            raise NoBaseline(f"torch.compile {error}") from None
        except BaseException:
            process.close()
            raise

    def _ask(self, message: dict[str, Any], timeout: float) -> dict[str, Any]:
        reply = self._cores.ask(self.process, message, timeout)
        if "failed" in reply:
            raise NoBaseline(f"torch.compile failed: {reply['message']}")
        return reply

    def time(self, case: Case) -> float:
        """Time of one call on fresh inputs of the shape that the task shows (in seconds)."""
        try:
            with self._cores.pinned(self.process):
                reply, seconds = time_call(self.process, self._arena, case, self._settings)
        except ProcessFailure as error:
            raise TaskError(f"task {self._task.id}: torch.compile {error}") from None
        if "failed" in reply:
            raise TaskError(f"task {self._task.id}: torch.compile failed: {reply['message']}")
        self._arena.outputs(reply, lambda message: self._ask(message, self._settings.run_timeout_s))
        return seconds
