"""The candidate's process, with what the referee knows of it: its memory, its state and what is closed to it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from kernelrl.candidate import ENTRY_POINT
from kernelrl.executor.judging import parameters
from kernelrl.executor.judging.arena import Arena, Case
from kernelrl.executor.judging.endings import DiedOnClosedPage, Ended, PageLearnt, broke_off, broke_rule
from kernelrl.executor.judging.match import Match
from kernelrl.executor.legality.operators import COPIES
from kernelrl.executor.processes.closed_library import Closed, LibraryStaysOpen, copies_between
from kernelrl.executor.processes.failures import ProcessDied, ProcessFailure
from kernelrl.executor.processes.peak_memory import PeakMemory
from kernelrl.executor.processes.process import Process, nothing
from kernelrl.verdict import Violation

_OF_MODEL = {"parameters", "buffers"}
_SIGNS = {"aten::add": "+", "aten::sub": "-", "aten::rsub": "-", "aten::mul": "*", "aten::div": "/", "aten::neg": "-"}
"""By operator: how Python writes it."""

_COPIES = tuple(sorted(COPIES))
_WORK = {
    "views": "the task only moves, converts or compares data: its copies are the kernel's work",
    "copies": "between types that the task does not have, and integers and floating point, the kernel converts",
}
"""By what the library may do: which copies it may not make."""


class CandidateProcess:
    """One candidate in its process. Every step may end the judgement.

    Args:
        match: what is judged.
        process: where it runs.
    """

    def __init__(self, match: Match, process: Process):
        self.match = match
        self.process = process
        self.reference, self.settings, self.found = match.reference, match.settings, match.found
        self.cores, self.library = match.cores, match.library
        self.arena = Arena(match.reference.arena_bytes, match.settings)
        self.memory: PeakMemory
        self.closed: Closed | None = None
        self.offers: list[tuple[Path, str]] | None = []
        """Native modules that were built and not yet offered, and their names; None: no more are built."""
        self.report: Any = None  # what its constructor has drawn and registered
        self.state: dict[str, Any] = {}

    def attach(self, timeout: float) -> None:
        """Share memory with it, before it sees untrusted text, and begin to measure its own."""
        self.memory = PeakMemory(self.process.pid)
        self.arena.attach(partial(self.cores.ask, self.process, timeout=timeout))

    def ask(
        self, message: dict[str, Any], meanwhile: Callable[[], None] = nothing, limit_s: float | None = None
    ) -> dict[str, Any]:
        """Its answer to a question, once it may run; `meanwhile` is work to do until then."""
        return self.cores.ask(self.process, message, limit_s or self.match.call_limit_s, meanwhile)

    def call(
        self, case: Case, question: dict[str, Any], meanwhile: Callable[[], None], limit_s: float | None = None
    ) -> dict[str, Any]:
        """One call of `forward` that is not timed.

        Args:
            case: its inputs.
            question: put once these are in place.
            meanwhile: work to do until it is answered.
            limit_s: of the answer (in seconds); None: that of the settings.
        """
        try:
            self.arena.arrange(case.shape.layout, self.ask)
            self.arena.put(case.image, case.outputs, self.ask)
            return self.ask(question, meanwhile, limit_s)
        except ProcessFailure as error:
            raise self.broke_off(error, "while it ran", limit_s) from None
        except ValueError as error:
            raise self.violation("forged_message", str(error)) from None

    def construct(self, hidden: str, given: dict[int, torch.Tensor]) -> Any:
        """Have it construct its model anew with hidden draws and given values: what the constructor reports."""
        timeout = self.settings.load_timeout_s

        def ask(message: dict[str, Any], fds: tuple[int, ...]) -> dict[str, Any]:
            return self.cores.ask(self.process, message, timeout, fds=fds)

        try:
            reply = parameters.construct(ask, hidden, given)
        except ProcessFailure as error:
            raise broke_off(error, "while it was constructed again", timeout, self.found, self.process) from None
        if "build" in reply:
            raise self.violation("build_request", "a build that was not needed when it was first constructed")
        if "failed" in reply:
            message = reply.get("message", "")
            raise Ended("runtime_error", f"Constructing {ENTRY_POINT} again failed: {message}")
        return reply.get("parameters")

    def close_library(self) -> None:
        """Close the libraries' code. Before, `__init__` may compute with its parameters."""
        if not self.match.must_do_the_work or "pages" in self.settings.allow_missing:
            return
        allowed = "views" if self.reference.habits.only_moves else copies_between(self.reference.dtypes)
        try:
            with self.memory.replacing_files():
                self.closed = self.library.close(self.process, self.ask, allowed, self.match.interpreted)
        except LibraryStaysOpen as error:
            raise self.violation("library_call", str(error)) from None
        except ProcessFailure as error:
            raise self.broke_off(error, "after it was constructed") from None
        self.found.layers = [*self.process.layers, "pages"]
        if self.settings.device == "cpu":
            self.found.coverage = 1.0  # no code of a library computes from here on

    def note_state(self) -> None:
        """Keep in mind how it is, see `check_state`."""
        self.state = self._read_state() | self.process.settings

    def check_state(self) -> None:
        """Parameters, random numbers and global settings must be as they were, unless the reference changes them."""
        try:
            after = self._read_state()
        except ProcessFailure as error:
            raise self.broke_off(error, "after it ran") from None
        may_change = self.reference.habits.changes_state
        if not may_change.isdisjoint(_OF_MODEL):
            may_change = may_change | _OF_MODEL
        for name, value in self.state.items():
            if name in may_change or after.get(name) == value:
                continue
            if name == "parameters":
                raise self.violation("parameters_mutated", "forward changed the model's parameters")
            if name == "buffers":
                self._check_buffers(value, after.get(name))
                continue
            raise self.violation("state_changed", f"{name}: {value!s:.50} became {after.get(name)!s:.50}")

    def _check_buffers(self, before: Any, after: Any) -> None:
        """Those that the reference has must be as they were; another one is as good as an attribute."""
        known = after if isinstance(after, dict) else {}
        for name in self.reference.habits.buffers.intersection(before if isinstance(before, dict) else ()):
            if known.get(name) != before[name]:
                raise self.violation("parameters_mutated", f"forward changed buffer {name} of the task's model")

    def _read_state(self) -> dict[str, Any]:
        state = self.ask({"do": "state"}).get("state")
        return state if isinstance(state, dict) else {}

    def broke_off(self, error: ProcessFailure, when: str, timeout: float | None = None) -> Exception:
        """The end of a judgement whose process failed after it was loaded."""
        if isinstance(error, ProcessDied) and self.closed and self.library.explain(self.process, self.closed):
            return DiedOnClosedPage()
        return broke_off(error, when, timeout or self.match.call_limit_s, self.found, self.process)

    def answer_for_death(self) -> Exception:
        """The end of a judgement whose process died on a closed page: another one, if an allowed operator needs it."""
        assert self.closed is not None
        seen = self.library.explain(self.process, self.closed)
        assert seen is not None
        if self.match.may_learn:
            with self.cores.preparing(), self.cores.on_device():
                if self.library.learn(self.process, self.closed):
                    return PageLearnt()
        evidence, line = seen
        if sign := _SIGNS.get(evidence.partition("_")[0]):
            evidence += f" ({sign} of a tensor in Python: let the kernel do it)"
        elif evidence.startswith(_COPIES):
            evidence += f" ({_WORK[self.closed.allowed.split()[0]]})"
        self.found.violations.append(Violation(rule="library_operator", evidence=evidence, line=line))
        return Ended("illegal", f"The library was to do the work of the kernel: {evidence}.")

    def violation(self, rule: str, evidence: str) -> Ended:
        """The end of the judgement for a rule that it broke."""
        return broke_rule(self.found, rule, evidence)
