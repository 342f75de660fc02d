"""Whether a process that was told to stop stands: a thread inside a system call works on until that call ends."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

STOPPING_CPU_S = 1.0
"""Time that a process may compute after it was told to stop (in seconds): no kernel's system call takes so long."""
STOPPING_S = 60.0
"""Time in which it must stand (in seconds): much on a loaded machine, moments on another."""
SPINNING_S = 1e-4
"""Time in which it mostly stands (in seconds): to sleep meanwhile would be measured, to spin for longer is wasted."""
STOPPED, ENDED = b"Tt", b"ZX"
_SCHED_CLOCK = 2  # CPUCLOCK_SCHED, see clock_getcpuclockid(3)


class StillRuns(Exception):
    """A process does not stand.

    Args:
        final: it computed all that time; False: the load on the machine may have been the cause.
    """

    def __init__(self, final: bool):
        super().__init__("could not be stopped")
        self.final = final


def wait_until_it_stands(pid: int, stands: Callable[[], bool]) -> None:
    """Return when a process stands that was told to stop.

    Args:
        pid: the process.
        stands: says whether it does.

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
        if waited < SPINNING_S:
            os.sched_yield()  # to a thread that has yet to stop on this core
        else:
            time.sleep(SPINNING_S)


def stands(pid: int) -> bool:
    """Whether every thread of a process that was told to stop stands, and so does what it has started."""
    try:
        return all(_thread_stands(f"/proc/{pid}/task/{thread}") for thread in os.listdir(f"/proc/{pid}/task"))
    except (FileNotFoundError, ProcessLookupError):
        return True


def _thread_stands(thread: str) -> bool:
    try:
        with open(f"{thread}/stat", "rb", buffering=0) as file:
            state = file.read(512).rpartition(b") ")[2][:1]
        with open(f"{thread}/children", "rb", buffering=0) as file:
            children = file.read().split()
    except (FileNotFoundError, ProcessLookupError):
        return True
    in_vfork = state == b"D" and children  # until its child goes on
    return (state in STOPPED + ENDED or bool(in_vfork)) and all(stands(int(child)) for child in children)


def cpu_s(pid: int) -> float:
    """Time that a process has computed, all threads together (in seconds, to the microsecond); 0: it has ended."""
    try:
        return time.clock_gettime(~pid << 3 | _SCHED_CLOCK)
    except OSError:
        return 0.0
