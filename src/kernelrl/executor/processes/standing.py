"""Whether a process that was told to stop stands: a thread inside a system call works on until that call ends."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

STOPPING_CPU_S = 1.0
"""Time that a process may compute after it was told to stop (in seconds): no kernel's system call takes so long."""
STOPPING_S = 60.0
"""Time in which it must stand (in seconds): much on a loaded machine, moments on another."""
SPINNING_S, ALONE_S = 1e-4, 1e-3
"""Time in which it mostly stands, and in which it does so where all else stands still (in seconds): to sleep meanwhile
would be measured, to spin for longer is wasted."""
STOPPED, ENDED = b"Tt", b"ZX"
MOST_OPEN = 8
"""Files of one process that stay open."""
_GONE = FileNotFoundError, ProcessLookupError
_SCHED_CLOCK = 2  # CPUCLOCK_SCHED, see clock_getcpuclockid(3)


class StillRuns(Exception):
    """A process does not stand.

    Args:
        final: it computed all that time; False: the load on the machine may have been the cause.
    """

    def __init__(self, final: bool):
        super().__init__("could not be stopped")
        self.final = final


def wait_until_it_stands(pid: int, stands: Callable[[], bool], alone: bool = False) -> None:
    """Return when a process stands that was told to stop.

    Args:
        pid: the process.
        stands: says whether it does.
        alone: all else stands still for it.

    Raises:
        StillRuns
    """
    if stands():
        return
    started, computed = time.monotonic(), cpu_s(pid)
    while not stands():
        if cpu_s(pid) - computed > STOPPING_CPU_S:
            raise StillRuns(final=True)
        waited = time.monotonic() - started
        if waited > STOPPING_S:
            raise StillRuns(final=False)
        if waited < (ALONE_S if alone else SPINNING_S):
            os.sched_yield()  # to a thread that has yet to stop on this core
        else:
            time.sleep(SPINNING_S)


class Threads:
    """The threads of a process. Files of the first ones stay open: a judgement looks at them two hundred times.

    Args:
        pid: the process.
        start_others: they may start processes.
    """

    def __init__(self, pid: int, start_others: bool = True):
        self._folder = f"/proc/{pid}/task"
        self._start_others = start_others
        self._files: dict[str, int] = {}

    def stand(self) -> bool:
        """Whether every thread of a process that was told to stop stands, and so does what it has started."""
        try:
            return all([self._stands(thread) for thread in os.listdir(self._folder)])
        except _GONE:
            return True

    def close(self) -> None:
        """Close the files."""
        while self._files:
            os.close(self._files.popitem()[1])

    def _stands(self, thread: str) -> bool:
        try:
            state = self._read_state(thread).rpartition(b") ")[2][:1]
            children = self._children(thread) if self._start_others else []
        except _GONE:
            return True
        in_vfork = state == b"D" and children  # until its child goes on
        return (state in STOPPED + ENDED or bool(in_vfork)) and all(stands(int(child)) for child in children)

    def _read_state(self, thread: str) -> bytes:
        if thread in self._files:
            try:
                return os.pread(self._files[thread], 512, 0)
            except ProcessLookupError:  # it has ended; another one may have its number now
                os.close(self._files.pop(thread))
        file = os.open(f"{self._folder}/{thread}/stat", os.O_RDONLY)
        if len(self._files) < MOST_OPEN:
            self._files[thread] = file
            return os.pread(file, 512, 0)
        with open(file, "rb", buffering=0) as once:
            return once.read(512)

    def _children(self, thread: str) -> list[bytes]:
        with open(f"{self._folder}/{thread}/children", "rb", buffering=0) as file:
            return file.read().split()


def stands(pid: int) -> bool:
    """Whether every thread of a process that was told to stop stands, and so does what it has started."""
    with closing(Threads(pid)) as threads:
        return threads.stand()


@contextmanager
def computing(pid: int, found: list[float]) -> Iterator[None]:
    """Add to `found` how long a process computes meanwhile (in seconds)."""
    before = cpu_s(pid)
    yield
    found.append(cpu_s(pid) - before)


def cpu_s(pid: int) -> float:
    """Time that a process has computed, all threads together (in seconds, to the microsecond); 0: it has ended."""
    try:
        return time.clock_gettime(~pid << 3 | _SCHED_CLOCK)
    except OSError:
        return 0.0
