"""How long the service waits for an untrusted process. Load on the machine is nobody's guilt.

A process has used up its time when one of its threads has computed for that long, when all of them together have kept
every core busy for that long, or when it has waited for nothing for that long. Time for which it was runnable and did
not run, or was stopped for somebody's measurement, is not counted, nor is that for which it waited for a disk, unless
all else stands still for it. A ceiling on the clock, far above, ends the rest.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from kernelrl.executor.quota import num_cores

LOOK_EVERY_S = 0.25
CEILING_FACTOR, CEILING_S = 10.0, 60.0
"""The clock's ceiling: so many times the limit, and so many seconds more."""
_TICKS = os.sysconf("SC_CLK_TCK")
_WAITING = b"SI"
"""States of a thread that waits for something other than a core or a disk: asleep, idle."""


def ceiling(seconds: float) -> float:
    """Time on the clock after which what has a limit of `seconds` is ended, however busy the machine (in seconds)."""
    return CEILING_FACTOR * seconds + CEILING_S


class OutOfPatience(Exception):
    """The process has used up its time, or it will never answer.

    Args:
        reason: what it did; empty: it computed, or waited, for too long.
        final: False: the load on the machine may have decided.
    """

    def __init__(self, reason: str = "", final: bool = True):
        super().__init__(reason)
        self.final = final


@dataclass(frozen=True)
class _Look:
    """A process at one moment."""

    cpu_s: float
    """Time that it has computed, all threads together (in seconds)."""
    threads: dict[str, float]
    """The same by thread, of those that live."""
    states: bytes
    """States of its threads, one letter each."""


def never_paused() -> tuple[bool, float]:
    """Nobody stops the process."""
    return False, 0.0


class Patience:
    """Waits until there is something to read from a process, as long as that process deserves. One for each question.

    Args:
        pid: the process.
        sock: where its answer arrives.
        seconds: its limit.
        pauses: says whether the process is stopped by its own service now, and for how long it has been (in seconds).
        alone: all else stands still for it.
    """

    def __init__(
        self,
        pid: int,
        sock: socket.socket,
        seconds: float,
        pauses: Callable[[], tuple[bool, float]] = never_paused,
        alone: bool = False,
    ):
        self._pid = pid
        self._seconds = seconds
        self._pauses = pauses
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._started = self._looked = time.monotonic()
        self._paused = pauses()
        self._paused_before = self._paused[1]
        self._first: _Look | None = None  # at the first look: what answers before is not looked at
        self._last: _Look | None = None
        self._idle_s = 0.0
        self._alone = alone
        self._waited_for_disk = False

    def wait(self) -> None:
        """Return when there is something to read.

        Raises:
            OutOfPatience
            ConnectionResetError: the process has ended.
        """
        ready: list[tuple[int, int]] = []
        while not ready:
            ready = self._poll.poll(LOOK_EVERY_S * 1000)
            if time.monotonic() - self._looked >= LOOK_EVERY_S:
                self._judge()

    def _judge(self) -> None:
        self._looked = time.monotonic()
        try:
            look = _look(self._pid)
        except OSError:  # it is gone, and so the socket tells
            return
        paused, last, first = self._pauses(), self._last, self._first or look
        undisturbed = paused == self._paused and not paused[0]
        self._first, self._last, self._paused = first, look, paused
        if last is not None and undisturbed:
            states = set(look.states + last.states)
            if states == set(b"Z"):
                raise ConnectionResetError("has ended")
            if states and states <= set(b"TZ"):
                raise OutOfPatience("stopped itself")
            computed = look.cpu_s - last.cpu_s
            if not computed and set(look.states) <= set(_WAITING + b"Z"):
                self._idle_s += LOOK_EVERY_S
            elif self._alone and computed < LOOK_EVERY_S / 2 and set(look.states) <= set(_WAITING + b"DZ"):
                self._idle_s += LOOK_EVERY_S - computed
                self._waited_for_disk = True
        longest = max((seconds - first.threads.get(name, 0.0) for name, seconds in look.threads.items()), default=0.0)
        together = (look.cpu_s - first.cpu_s) / num_cores()
        if max(longest, together) >= self._seconds:
            raise OutOfPatience()
        if self._idle_s >= self._seconds:
            raise OutOfPatience(final=not self._waited_for_disk)
        if self._looked - self._started - (paused[1] - self._paused_before) >= ceiling(self._seconds):
            raise OutOfPatience(final=False)


def _look(pid: int) -> _Look:
    states, cpu_s = b"", {}
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError):  # threads may come and go all the time
            state, cpu_s[thread] = _read(f"/proc/{pid}/task/{thread}/stat")
            states += state
    return _Look(_read(f"/proc/{pid}/stat")[1], cpu_s, states)


def _read(path: str) -> tuple[bytes, float]:
    """State and CPU time (in seconds) of a process or a thread."""
    with open(path, "rb", buffering=0) as file:
        fields = file.read(1024).rpartition(b") ")[2].split()
    return fields[0], (int(fields[11]) + int(fields[12])) / _TICKS
