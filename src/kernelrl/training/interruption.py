"""Being told to stop: SIGTERM (preemption, `scancel`) and SIGUSR1 (time is nearly over) end a run so that it resumes.

A run that is not training stops at once: every stage can go on from what it has written. One that trains finishes its
step and saves a checkpoint first.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from kernelrl.errors import KernelRLError

SIGNALS = (signal.SIGTERM, signal.SIGUSR1)


class Interrupted(KernelRLError):
    """The run was told to stop, and nothing is lost: the same command goes on."""

    exit_code = 75
    """EX_TEMPFAIL of sysexits.h: whoever started the run may start it again."""


_received: signal.Signals | None = None
_deferring = False


def install() -> None:
    """Handle the signals from now on. To be called by the main thread."""
    for number in SIGNALS:
        signal.signal(number, _handle)


def received() -> bool:
    """Whether this process was told to stop."""
    return _received is not None


def follow() -> None:
    """Stop because another rank was told to."""
    global _received
    _received = _received or signal.SIGTERM


@contextmanager
def deferred() -> Iterator[None]:
    """Let the block find a good moment to stop, by asking `received`.

    Raises:
        Interrupted: after the block, where a signal came meanwhile.
    """
    global _deferring
    _deferring = True
    try:
        yield
    finally:
        _deferring = False
    if _received is not None:
        raise _interrupted(_received)


def _handle(number: int, frame: FrameType | None) -> None:
    global _received
    _received = signal.Signals(number)
    if not _deferring:
        raise _interrupted(_received)


def _interrupted(number: signal.Signals) -> Interrupted:
    return Interrupted(f"stopped by {number.name}; the same command goes on from here")
