"""The reference's process: questions to it, its calls, and their time."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from kernelrl.errors import InfrastructureError, TaskError
from kernelrl.executor.api import ExecutorSettings
from kernelrl.executor.judging.arena import Arena, Case
from kernelrl.executor.judging.timing import time_call
from kernelrl.executor.processes.cores import Cores
from kernelrl.executor.processes.failures import ProcessFailure
from kernelrl.executor.processes.process import Process
from kernelrl.task import Task

PATIENCE = 10
"""Limit of a question that takes several calls, in calls as long as any may be."""


class ReferenceLost(InfrastructureError):
    """The process of a reference was killed, or had no core for too long: by itself, or by the machine."""


class ReferenceProcess:
    """A process in which a task's reference runs. What goes wrong there is the task's fault, unless it was killed.

    Args:
        task: the task.
        process: where it runs.
        cores: says when it may run.
        settings: limits of time.
    """

    def __init__(self, task: Task, process: Process, cores: Cores, settings: ExecutorSettings):
        self.task = task
        self.process = process
        self.settings = settings
        self._cores = cores
        self.arena: Arena
        self.tells_rounding = False
        """It is known how far rounding moves its outputs, if it bears what rounding does."""
        self.eliminates = self.writes = False
        """It solves systems or decomposes matrices."""
        self.level: int | None = None
        """See `exact.Exact`; None: not known."""
        self.narrows: bool | None = None
        """An output consists of what conversions to a lower precision round, see `exact.compute`; None: not known."""
        self.masks = False
        """It may hide values by a number that stands for infinity, or by an operator that applies a mask."""

    @property
    def load_question(self) -> dict[str, Any]:
        """The question that loads the reference, but for what its constructor gets."""
        return {"do": "load", "source": self.task.source, "entry": "Model"}

    def in_process(self, process: Process) -> ReferenceProcess:
        """The same reference in another process."""
        return ReferenceProcess(self.task, process, self._cores, self.settings)

    def attach(self, num_bytes: int) -> None:
        """Share memory with it in which inputs of that size have room."""
        self.arena = Arena(num_bytes, self.settings)
        self.arena.attach(self.ask)

    def ask(self, message: dict[str, Any], timeout: float | None = None, fds: tuple[int, ...] = ()) -> dict[str, Any]:
        """Its answer to a question, once it may run.

        Raises:
            TaskError, ReferenceLost
        """
        try:
            reply = self._cores.ask(self.process, message, timeout or self.settings.run_timeout_s, fds=fds)
        except ProcessFailure as error:
            raise self._broken(error) from None
        return self._succeeded(reply)

    def examine(self, message: dict[str, Any]) -> dict[str, Any]:
        """The answer to a question for which it calls the model several times, operator by operator."""
        return self.ask(message, PATIENCE * self.settings.run_timeout_s)

    def call(self, layout: dict[str, Any], image: torch.Tensor, filled: bool = False, **how: bool) -> dict[str, Any]:
        """The answer to a call on these inputs.

        Args:
            layout: where they lie.
            image: the arena's bytes.
            filled: the memory that it may use is written over before. It stays as it is else: a reference is trusted.
            how: see `Contestant.do_run`.
        """
        self.arena.arrange(layout, self.ask)
        if filled:
            self.arena.put(image, [], self.ask)
        else:
            self.arena.write(image, self.ask)
        return self.ask({"do": "run"} | how)

    def outputs(self, reply: dict[str, Any]) -> list[torch.Tensor]:
        """Copies of the outputs of the call that was just answered."""
        described = self.arena.outputs(reply, self.ask)
        return [self.arena.tensor(self.process, item) for item in described]

    def time(self, case: Case, around: AbstractContextManager[object] = nullcontext()) -> float:  # noqa: B008
        """Time of one call on fresh inputs (in seconds), see `time_call`.

        Then its memory is read as a candidate's is, so that both find the processor's caches in the same state.
        """
        try:
            reply, seconds = time_call(self.process, self.arena, case, self.settings, around=around)
        except ProcessFailure as error:
            raise self._broken(error) from None
        self.outputs(self._succeeded(reply))
        self.arena.changed(case.image, case.shape.layout)
        return seconds

    def pinned(self) -> AbstractContextManager[None]:
        """Pin it as the process that is measured, see `Cores.pinned`."""
        return self._cores.pinned(self.process)

    def time_nothing(self) -> float:
        """Time of a question that asks nothing (in seconds)."""
        try:
            reply, seconds = self.process.ask({"do": "null"}, self.settings.run_timeout_s, alone=True)
        except ProcessFailure as error:
            raise self._broken(error) from None
        self.arena.note_spans(reply)
        return seconds

    def _succeeded(self, reply: dict[str, Any]) -> dict[str, Any]:
        if "failed" in reply:
            raise TaskError(f"task {self.task.id}: the reference failed: {reply['message']}")
        return reply

    def _broken(self, error: ProcessFailure) -> Exception:
        kind = TaskError if error.final else ReferenceLost
        return kind(f"task {self.task.id}: the reference's process {error}")
