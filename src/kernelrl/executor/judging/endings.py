"""How a judgement ends, and whose fault an end is that nobody asked for."""

from __future__ import annotations

import traceback

from kernelrl.executor.judging.findings import Findings
from kernelrl.executor.processes.failures import ForgedMessage, ProcessDied, ProcessFailure, ProcessTimeout
from kernelrl.executor.processes.process import Process
from kernelrl.verdict import Status, Violation


class Ended(Exception):
    """The judgement is made: nothing further needs to run."""

    def __init__(self, status: Status, feedback: str):
        super().__init__(feedback)
        self.status = status
        self.feedback = feedback


_OF_MEMORY = ("SIGSEGV", "SIGBUS")
"""Signals of accesses to memory that is not there."""


class DiedOnClosedPage(Exception):
    """The candidate's process has died of code that is closed to it."""


class PageLearnt(Exception):
    """A candidate died on code that an allowed operator needs, and that is open from now on."""


def broke_rule(found: Findings, rule: str, evidence: str) -> Ended:
    """The end of a judgement of a candidate that broke a rule."""
    found.violations.append(Violation(rule=rule, evidence=evidence))
    return Ended("illegal", f"Broke the rule {rule}: {evidence}.")


def broke_off(error: ProcessFailure, when: str, timeout: float, found: Findings, process: Process) -> Ended:
    """The end of a judgement whose process failed."""
    found.final &= error.final
    if isinstance(error, ProcessDied) and (clock := process.note.clock()) is not None:
        found.violations.append(Violation(rule="clock", evidence=f"reached for {clock}", line=process.last_line()))
        return Ended("illegal", f"The candidate looked for a clock {when}.")
    if isinstance(error, ProcessTimeout):
        return Ended("timeout", f"The candidate took longer than {timeout:g} s {when}.")
    if isinstance(error, ForgedMessage):
        found.violations.append(Violation(rule="forged_message", evidence=f"an answer nobody asked for {when}"))
        return Ended("illegal", "The candidate wrote to the executor's channel.")
    hint = (
        " Perhaps an index is out of bounds, or the stack is full."
        if any(name in str(error) for name in _OF_MEMORY)
        else ""
    )
    return Ended("killed", f"The candidate's process {error} {when}.{hint}")


def blame(error: Exception, process: Process, found: Findings) -> Exception:
    """Whose fault an error is that nobody foresaw: what a candidate can provoke must not pass for a broken machine."""
    about = str(error.filename or "") if isinstance(error, OSError) else ""
    if isinstance(error, OSError) and process.alive and not about.startswith(f"/proc/{process.pid}"):
        return error  # a full disk, say; a process that hides itself from the executor has done so by itself
    found.final = False
    if process.alive:
        traceback.print_exception(error)  # on the service's own log: it may as well be a mistake in this program
    return Ended("killed", f"The executor can make nothing of what the candidate did ({type(error).__name__}).")
