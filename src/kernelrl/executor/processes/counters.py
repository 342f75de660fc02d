"""Counters of another process, read from outside: the processor's own, and the kernel's accounts.

What `perf stat -p PID` reads, by the same system call. The counters belong to the process that opens them: who is
counted sees none of them, cannot stop them (`PR_TASK_PERF_EVENTS_DISABLE` stops a process's own ones), and gets no
instruction to read them (`rdpmc` faults where a process has not mapped a counter of its own).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kernelrl.executor.processes.standing import cpu_s

_SYSTEM_CALL = {"x86_64": 298, "aarch64": 241}
_CLOEXEC = 8
_INHERIT, _WITHOUT_KERNEL, _WITHOUT_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6
_WITH_TIMES = 1 | 2  # PERF_FORMAT_TOTAL_TIME_ENABLED and _RUNNING
_ATTRIBUTES = struct.Struct("=IIQQQQQIIQ")  # the first 64 bytes of `perf_event_attr`
_READING = struct.Struct("=QQQ")
_NOT_THERE = (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV, errno.EINVAL)
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
USERS_MAY = 2
"""Highest value of `perf_event_paranoid` with which a user may count what the user's own processes do."""
MAX_COUNTED_THREADS = 128
"""Each takes a descriptor of this process for each event, and others need some meanwhile."""
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Event:
    """What is counted: a type and a number of linux/perf_event.h."""

    name: str
    type: int
    config: int


CYCLES, INSTRUCTIONS, CACHE_REFERENCES, CACHE_MISSES, BRANCHES, BRANCH_MISSES = (
    Event(name, 0, number)
    for number, name in enumerate(
        ("cycles", "instructions", "cache_references", "cache_misses", "branches", "branch_misses")
    )
)
"""The processor's counters."""


class NoCounters(Exception):
    """This machine does not let a counter be read.

    Args:
        reason: why not.
        way_out: what would allow it.
    """

    def __init__(self, reason: str, way_out: str):
        super().__init__(reason)
        self.way_out = way_out


@dataclass(frozen=True)
class Accounts:
    """What the kernel has noted about a process so far, all threads that live together."""

    page_faults: int
    context_switches: int
    cpu_s: float
    """Time for which it has computed (in seconds)."""

    def since(self, earlier: Accounts) -> Accounts:
        """What came to it since."""
        return Accounts(
            self.page_faults - earlier.page_faults,
            self.context_switches - earlier.context_switches,
            self.cpu_s - earlier.cpu_s,
        )


def accounts(pid: int) -> Accounts:
    """The kernel's accounts of a process that stands, so that none of its threads comes or goes meanwhile."""
    minor, _, major = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[7:10]
    switches = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        lines = (thread / "status").read_text().splitlines()
        switches += sum(int(line.split()[1]) for line in lines if "voluntary_ctxt_switches" in line)
    return Accounts(int(minor) + int(major), switches, cpu_s(pid))


@contextmanager
def counting(pid: int, events: Sequence[Event]) -> Iterator[Callable[[], list[int | None]]]:
    """Count what a process does from here on, with the threads that it has and those that they start.

    Only its own code counts, not the kernel's work for it. The process stands when this is entered.

    Yields:
        Reads the counts so far, in the order of the events. None: the processor had no counter free all the time.

    Raises:
        NoCounters
    """
    threads = [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    if len(threads) > MAX_COUNTED_THREADS:
        raise NoCounters(
            f"the process has {len(threads)} threads, and those of {MAX_COUNTED_THREADS} at most are counted",
            "fewer threads in the kernel, or executor.threads",
        )
    with contextlib.ExitStack() as opened:
        counters = []
        for event in events:
            descriptors = [_open(event, thread) for thread in threads]
            for descriptor in descriptors:
                opened.callback(os.close, descriptor)
            counters.append(descriptors)
        yield lambda: [_sum(descriptors) for descriptors in counters]


def try_counters() -> None:
    """Try whether the processor's counters can be read on this machine.

    Raises:
        NoCounters
    """
    with counting(os.getpid(), [CYCLES, INSTRUCTIONS]):
        pass


def _open(event: Event, thread: int) -> int:
    number = _SYSTEM_CALL.get(platform.machine())
    if number is None:
        raise NoCounters(f"perf_event_open is not known for {platform.machine()}", "an x86-64 or arm64 processor")
    flags = _INHERIT | _WITHOUT_KERNEL | _WITHOUT_HYPERVISOR
    attributes = _ATTRIBUTES.pack(event.type, _ATTRIBUTES.size, event.config, 0, 0, _WITH_TIMES, flags, 0, 0, 0)
    descriptor: int = _LIBC.syscall(number, attributes, thread, -1, -1, _CLOEXEC)
    if descriptor < 0:
        raise explain(event, ctypes.get_errno(), int(_PARANOID.read_text()) if _PARANOID.exists() else None)
    return descriptor


def explain(event: Event, error: int, paranoid: int | None) -> NoCounters:
    """Why a counter cannot be read.

    Args:
        event: what was to be counted.
        error: of the system call.
        paranoid: the kernel's setting of that name; None: this kernel has no counters.
    """
    if error in _NOT_THERE:
        return NoCounters(
            f"the processor shows no counter of {event.name.replace('_', ' ')}",
            "a machine of its own: a virtual one has counters only where its host passes them on",
        )
    if paranoid is not None and paranoid > USERS_MAY and error in (errno.EACCES, errno.EPERM):
        return NoCounters(
            f"kernel.perf_event_paranoid is {paranoid}", f"sysctl -w kernel.perf_event_paranoid={USERS_MAY}"
        )
    if error in (errno.EACCES, errno.EPERM, errno.ENOSYS):
        return NoCounters(
            "perf_event_open is not allowed",
            "in a container, a filter of system calls that lets it pass (or CAP_PERFMON)",
        )
    return NoCounters(f"perf_event_open: {os.strerror(error)}", "see perf_event_open(2)")


def _sum(descriptors: Sequence[int]) -> int | None:
    """The count of all threads of an event."""
    total = 0
    for descriptor in descriptors:
        count, enabled, running = _READING.unpack(os.read(descriptor, _READING.size))
        if running < enabled:
            return None
        total += count
    return total
