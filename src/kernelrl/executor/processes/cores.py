"""Who may use the cores: any number of preparations, or one measurement.

A measurement does not wait for the preparations that run: it stops them (SIGSTOP) and lets them go on afterwards, so
that timed sections overlap neither each other nor a build, and a slow candidate delays nobody.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from kernelrl.executor.api import DEFAULT_LOCK_FILE
from kernelrl.executor.processes.failures import ProcessFailure
from kernelrl.executor.processes.hostlock import HostLock
from kernelrl.executor.processes.process import Process, nothing
from kernelrl.executor.processes.standing import StillRuns, stands, wait_until_it_stands
from kernelrl.verdict import Spent


class Clock(threading.local):
    """What the judgement of this thread has spent so far, beside its own work (in seconds)."""

    waiting = 0.0
    """For others: a place, a lock, the end of a measurement."""
    reference = 0.0
    """Making what all candidates of the task share, waiting not counted."""
    timed = 0.0
    """Having the cores alone."""
    calls = 0.0
    """Of that, the calls of the programs that are timed."""
    works = False
    """It does a piece of the service's own work, see `Cores.working`."""

    def restart(self) -> None:
        """A new judgement begins."""
        self.waiting = self.reference = self.timed = self.calls = 0.0

    def spent(self) -> Spent:
        """As the verdict has it."""
        return Spent(waiting=self.waiting, reference=self.reference, timed=self.timed, calls=self.calls)


class Cores:
    """Shares the cores of one machine among the candidates of one executor. Thread-safe.

    Args:
        num_workers: number of preparations at once.
        gpu: candidates run on a device, one at a time.
        lock_file: shared with the other executors of this machine, of which one measures at a time.
    """

    def __init__(self, num_workers: int, gpu: bool = False, lock_file: str = DEFAULT_LOCK_FILE):
        self._host = HostLock(lock_file)
        self._device: contextlib.AbstractContextManager[Any] = threading.Lock() if gpu else contextlib.nullcontext()
        self._slots = threading.Semaphore(num_workers)
        self._condition = threading.Condition()
        self._measuring = False
        self._waiting = 0
        self._working = 0
        self._groups: set[int] = set()
        self._measured: set[int] = set()
        self._first_core = 0
        self._paused_s = 0.0
        self.clock = Clock()

    @property
    def paused_s(self) -> float:
        """Time that preparations have stood still so far (in seconds): whoever waits for one waits that much longer."""
        return self._paused_s

    def stopwatch(self) -> Callable[[], float]:
        """Tells the time since it was made in which preparations did not stand still (in seconds)."""
        started, paused = time.monotonic(), self._paused_s
        return lambda: max(time.monotonic() - started - (self._paused_s - paused), 0.0)

    @contextmanager
    def preparing(self) -> Iterator[None]:
        """Hold one of the `num_workers` slots."""
        with self.holding(self._slots):
            yield

    @contextmanager
    def on_device(self) -> Iterator[None]:
        """Have the device alone. Taken after a slot and before a reference's lock."""
        with self.holding(self._device):
            yield

    @contextmanager
    def holding(self, lock: contextlib.AbstractContextManager[Any]) -> Iterator[None]:
        """Hold a lock; the time until it is free is waiting."""
        with contextlib.ExitStack() as stack:
            with self._waits():
                stack.enter_context(lock)
            yield

    @contextmanager
    def making_reference(self) -> Iterator[None]:
        """Work that the first candidate of a task does for all of them."""
        started, waiting = time.monotonic(), self.clock.waiting
        yield
        self.clock.reference += time.monotonic() - started - (self.clock.waiting - waiting)

    @contextmanager
    def _waits(self) -> Iterator[None]:
        started = time.monotonic()
        yield
        self.clock.waiting += time.monotonic() - started

    @contextmanager
    def off_device(self) -> Iterator[None]:
        """Within `on_device`: let others have it for a while."""
        if isinstance(self._device, contextlib.nullcontext):
            yield
            return
        self._device.__exit__(None, None, None)
        try:
            yield
        finally:
            with self._waits():
                self._device.__enter__()

    @contextmanager
    def working(self, counted: bool = True) -> Iterator[None]:
        """Work of the service's own, such as starting a process or comparing outputs: nothing is measured meanwhile.

        Short pieces only, in which nobody is asked: a measurement waits for their end.

        Args:
            counted: the time until it may begin is waiting; False: it is counted elsewhere.
        """
        assert not self.clock.works, "a measurement waits for the end of this piece, and what begins within it for both"
        with self._condition:
            if counted:
                self._wait_for(self._is_free)
            else:
                self._condition.wait_for(self._is_free)
            self._working += 1
        self.clock.works = True
        try:
            yield
        finally:
            self.clock.works = False
            self._done()

    def _done(self) -> None:
        """A piece of the service's own work is."""
        with self._condition:
            self._working -= 1
            self._condition.notify_all()

    def close(self, *processes: Process) -> None:
        """Close processes. Nothing is measured while they give back their memory: gigabytes take the time of a core."""
        with self.working():
            for process in processes:
                process.kill()
        for process in processes:
            process.close()

    def close_later(self, process: Process) -> None:
        """Stop a process at once, and close it in a thread of its own."""
        process.halt()
        threading.Thread(target=self.close, args=(process,), daemon=True, name="closing").start()

    @contextmanager
    def stoppable(self, start: Callable[[], int], stop: Callable[[], object] = nothing) -> Iterator[int]:
        """Run a process group only while nothing is measured.

        Args:
            start: lets it run, and returns its number.
            stop: makes it stand when it has done its work.
        """
        with self.working():
            group = start()
            with self._condition:
                self._groups.add(group)
                paused = self._paused_s
        ending: Callable[[], object] = nothing
        try:
            yield group
            ending = stop
        finally:
            with self._condition:
                self._groups.discard(group)
                self._working += 1  # nothing is measured before it stands
                self.clock.waiting += self._paused_s - paused
            try:
                ending()
            finally:
                self._done()

    def ask(
        self,
        process: Process,
        message: dict[str, Any],
        timeout: float,
        meanwhile: Callable[[], None] = nothing,
        fds: tuple[int, ...] = (),
    ) -> dict[str, Any]:
        """A process's answer, as soon as nothing is measured; at once where the process is being measured itself.

        Raises:
            ProcessFailure
        """
        if process.pid in self._measured:
            return process.ask(message, timeout, fds, meanwhile, alone=True)[0]
        return self.next_message(process, process.post(message, fds), timeout, meanwhile)

    def next_message(
        self, process: Process, nonce: str, timeout: float, meanwhile: Callable[[], None] = nothing
    ) -> dict[str, Any]:
        """What a process that waits says next, while nothing is measured.

        Args:
            process: goes on, and rests again.
            nonce: that an answer must carry.
            timeout: limit (in seconds), without the time for which it was stopped.
            meanwhile: work to do while it runs.

        Raises:
            ProcessFailure
        """

        def start() -> int:
            process.thaw()
            return process.pid

        with self.stoppable(start, process.rest):
            with self.working(counted=False) if meanwhile is not nothing else contextlib.nullcontext():
                meanwhile()
            try:
                return process.next_message(nonce, timeout, self._pauses)
            except ProcessFailure:
                process.halt()  # before a measurement knows nothing of it
                raise

    def _pauses(self) -> tuple[bool, float]:
        return self._measuring, self._paused_s

    @contextmanager
    def measuring(self, *processes: Process) -> Iterator[None]:
        """Have the cores alone, with these processes pinned to them: on which one it runs tells a thread nothing."""
        with self.holding(self._host.held()), self._alone(*processes):
            yield

    def pinned(self, process: Process) -> contextlib.AbstractContextManager[None]:
        """Pin another process as those that are measured, while nothing else runs."""
        return process.pinned(self._first_core)

    @contextmanager
    def _alone(self, *processes: Process) -> Iterator[None]:
        with self._condition:
            self._waiting += 1
            self._wait_for(lambda: not self._measuring and not self._working)
            self._waiting -= 1
            self._measuring = True
            stopped = set(self._groups)
        started, reference = time.monotonic(), self.clock.reference
        self._measured = {process.pid for process in processes}
        try:
            _stop(stopped)
            self._first_core = secrets.choice(sorted(os.sched_getaffinity(0)))
            with contextlib.ExitStack() as stack:
                for process in processes:
                    stack.enter_context(self.pinned(process))
                yield
        finally:
            self._measured = set()
            self.clock.timed += time.monotonic() - started
            self.clock.reference = reference  # made meanwhile: counted as timed
            with self._condition:
                _signal(stopped & self._groups, signal.SIGCONT)
                self._paused_s += time.monotonic() - started
                self._measuring = False
                self._condition.notify_all()

    def _is_free(self) -> bool:
        """Nobody measures or is about to."""
        return not self._measuring and not self._waiting

    def _wait_for(self, condition: Callable[[], bool]) -> None:
        with self._waits():
            self._condition.wait_for(condition)


def _stop(groups: set[int]) -> None:
    """Stop process groups and wait until they stand. One that does not is ended: nobody could be measured."""
    _signal(groups, signal.SIGSTOP)
    for group in groups:
        try:
            wait_until_it_stands(group, partial(_stands, group))
        except StillRuns:
            _signal({group}, signal.SIGKILL)


def _stands(group: int) -> bool:
    _signal({group}, signal.SIGSTOP)  # again: a process that has just been forked had no group of its own yet
    return stands(group)


def _signal(groups: set[int], number: int) -> None:
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, number)
