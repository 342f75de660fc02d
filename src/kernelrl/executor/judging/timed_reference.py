"""The reference as it is timed: in a process that is confined like a candidate's."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from kernelrl.errors import TaskError
from kernelrl.executor.judging.arena import Case
from kernelrl.executor.judging.reference_parameters import ReferenceParameters
from kernelrl.executor.judging.reference_process import ReferenceProcess
from kernelrl.executor.processes.peak_memory import PeakMemory
from kernelrl.executor.processes.process import Process


class TimedReference:
    """Runs the reference where a clock ends the process, as it does a candidate's: all that is not timed needs clocks.

    A thread without a clock is dearer to switch to, on a virtual machine by microseconds: identical code that was timed
    against a process with clocks scored 0.8.

    Args:
        own: the reference's own process, which serves where the reference does not run in the other one.
        parameters: hidden ones.
        load: the question that loads the reference.
        arena_bytes: memory for its inputs.
        start: starts the process; None: there is none, as on a GPU, where a candidate has clocks.
    """

    def __init__(
        self,
        own: ReferenceProcess,
        parameters: ReferenceParameters,
        load: dict[str, Any],
        arena_bytes: int,
        start: Callable[[], Process] | None,
    ):
        self._own = own
        self._parameters = parameters
        self._load = load
        self._arena_bytes = arena_bytes
        self._start = start
        self._confined: ReferenceProcess | None = None
        self._taken: object = 0
        self.peak_bytes: int | None = None
        """Peak memory of the process while it loaded the reference and called it once; None: there is no process."""

    def prepare(self, case: Case) -> Process:
        """Have the process hold the parameters of a case. Returns it.

        Raises:
            TaskError: the reference does not run in its own process either.
        """
        if self._start is not None:
            try:
                self._prepare(self._start, case)
            except TaskError:
                self._start = None
                self.close()
        if self._confined is None:
            self._parameters.take(case.draw.parameters)
        return self._running.process

    def _prepare(self, start: Callable[[], Process], case: Case) -> None:
        number = case.draw.parameters
        hidden = self._parameters.of(number).hidden if number else 0
        if self._confined is None:
            self._confined = self._own.in_process(start())
            memory = PeakMemory(self._confined.process.pid)
            self._confined.attach(self._arena_bytes)
            self._confined.ask(self._load)
            self._construct(self._confined, case)
            self.peak_bytes = memory.num_bytes(case.image.numel())
        elif hidden != self._taken:
            self._construct(self._confined, case)
        self._taken = hidden

    def _construct(self, confined: ReferenceProcess, case: Case) -> None:
        self._taken = None  # unknown, if the constructor fails
        self._parameters.construct(confined.ask, case.draw.parameters)
        confined.outputs(confined.call(case.shape.layout, case.image))

    @property
    def _running(self) -> ReferenceProcess:
        return self._confined or self._own

    @property
    def pid(self) -> int:
        """Of the process that is timed."""
        return self._running.process.pid

    def time(self, case: Case, around: AbstractContextManager[object]) -> float:
        """Time of one call on fresh inputs (in seconds), see `time_call`."""
        return self._running.time(case, around)

    def cost_of_confinement(self, row: list[Case], seconds: list[float]) -> float:
        """How many times longer calls take here than in a process with clocks.

        Args:
            row: inputs of the calls of one turn, of which the first one does not count.
            seconds: that they have taken here.
        """
        if self._confined is None:
            return 1.0
        with self._own.pinned():
            return sum(seconds[1:]) / sum([self._own.time(case) for case in row][1:])

    def time_nothing(self) -> float:
        """Time of a question that asks nothing (in seconds)."""
        return self._running.time_nothing()

    @property
    def processes(self) -> list[Process]:
        """Its own, if it has one."""
        return [] if self._confined is None else [self._confined.process]

    def close(self) -> None:
        """End the process."""
        if self._confined is not None:
            self._confined.process.close()
            self._confined = None
