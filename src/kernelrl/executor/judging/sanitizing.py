"""The second look at a kernel that is right: does it touch memory that is not its own?

A native kernel is built with AddressSanitizer and UndefinedBehaviorSanitizer and runs in a process in which every
tensor is an allocation of the sanitizer's; Triton's interpreter compares the addresses of each access with the kernel's
tensors. Nothing of such a process is believed but the report of a mistake: the candidate could have hidden it, so this
finds mistakes and not malice.
"""

from __future__ import annotations

import mmap
import os
import re
from pathlib import Path
from typing import Any

from kernelrl.executor.api import ExecutorSettings
from kernelrl.executor.building.builder import Builder
from kernelrl.executor.building.units import BadUnit
from kernelrl.executor.contest.builds import ALL
from kernelrl.executor.judging.arena import Case
from kernelrl.executor.judging.match import Match
from kernelrl.executor.processes.call_memory import sealed_memory
from kernelrl.executor.processes.cores import Cores
from kernelrl.executor.processes.failures import ProcessFailure
from kernelrl.executor.processes.process import CANDIDATE_MESSAGE_BYTES, Process
from kernelrl.verdict import TrialError

REPORT_BYTES = 1 << 16
"""Length of the end of a log in which a report is looked for."""
SLOWER = 5
"""Factor by which a process may take longer under a sanitizer."""
MISTAKES = frozenset({
    *("heap-buffer-overflow", "stack-buffer-overflow", "stack-buffer-underflow", "dynamic-stack-buffer-overflow"),
    *("global-buffer-overflow", "container-overflow", "negative-size-param"),
    *("heap-use-after-free", "stack-use-after-return", "stack-use-after-scope", "use-after-poison"),
    *("double-free", "free", "memcpy-param-overlap", "SEGV", "unknown-crash"),
})  # fmt: skip
"""Kinds of AddressSanitizer's reports that name a mistake of the kernel's; `unknown-crash` is its word for a
vector that lies across the end of what was allocated. Others, such as a stack or a heap that is full under the
sanitizer alone, say that it did not get through."""
_ADDRESS = re.compile(r"ERROR: AddressSanitizer: (?:attempting )?([\w-]{1,60})")
_ACCESS = re.compile(r"^(READ|WRITE) of size (\d{1,9})", re.MULTILINE)
_PLACE = re.compile(r"kernel\.cpp:(\d{1,7})")
_UNDEFINED = re.compile(r"kernel\.cpp:(\d{1,7}):\d{1,7}: runtime error: ([^\n]{1,200})")
_BOUNDS = re.compile(r"OutOfBounds\(['\"]([^'\"]{1,200})")


class MemoryMistake(Exception):
    """A sanitizer's report."""

    def __init__(self, error: TrialError):
        super().__init__(error.message)
        self.error = error


def look_for_memory_errors(match: Match) -> None:
    """Run a kernel once on the task's inputs and once on each of its hidden shapes; in C++, once on hidden values, too.

    Raises:
        MemoryMistake: it reads or writes beyond a tensor, or its behaviour is undefined.
    """
    candidate, reference, cores, found = match.candidate, match.reference, match.cores, match.found
    if candidate.dialect not in ("cpp", "triton"):
        return
    with cores.holding(reference.lock), cores.making_reference():
        draws = reference.first_draws(hidden=candidate.dialect == "cpp")
    process = match.start("sanitizer" if candidate.dialect == "cpp" else "nothing")
    process.max_message_bytes = CANDIDATE_MESSAGE_BYTES
    trial = _Trial(process, match.settings, cores)
    try:
        with cores.preparing():
            question, builder = match.load_question | reference.init, match.builder.checking("memory")
            finished = trial.load(question, reference.arena_bytes, builder, len(found.builds))
            for number, draw in enumerate(draws if finished else ()):
                with cores.holding(reference.lock), cores.making_reference():
                    case = reference.checked_case(draw)
                finished = finished and trial.run(case, found.trials + number)
    except (ProcessFailure, BadUnit):
        finished = False
    finally:
        log = process.log_tail(REPORT_BYTES)
        cores.close_later(process)
    if (error := _read_report(log, trial.number, trial.inputs)) is not None:
        raise MemoryMistake(error)
    if finished:
        found.checks.append("memory")


class _Trial:
    """A candidate in a process that looks for mistakes."""

    def __init__(self, process: Process, settings: ExecutorSettings, cores: Cores):
        self._process = process
        self._settings = settings
        self._cores = cores
        self.number, self.inputs = 0, "task"

    def load(self, question: dict[str, Any], arena_bytes: int, builder: Builder, num_builds: int) -> bool:
        """Import the candidate and construct its model, with as many builds as before; whether that went well."""
        process, timeout = self._process, self._settings.load_timeout_s
        self._cores.ask(process, {"do": "watch"}, timeout)
        fd = sealed_memory("kernelrl-inputs", arena_bytes)
        try:
            self._inputs = mmap.mmap(fd, arena_bytes)
            self._cores.ask(process, {"do": "attach", "sizes": [arena_bytes]}, timeout, fds=(fd,))
        finally:
            os.close(fd)
        nonce = process.post(question)
        offers: list[tuple[Path, str]] | None = []
        while "build" in (message := self._cores.next_message(process, nonce, timeout)):
            if offers is None:
                return False
            if message["build"] == ALL:
                process.reply({"paths": process.offer_modules(offers)})
                offers = None
                continue
            unit, num_builds = message["build"], num_builds - 1
            if num_builds < 0 or not isinstance(unit, dict) or unit.get("cuda"):
                return False
            built = builder.build(unit)
            if built.path is None:
                return False
            offers.append((built.path, unit["name"]))
            process.reply({"ok": True, "log": ""})
        return "failed" not in message

    def run(self, case: Case, number: int) -> bool:
        """Call it; whether that went well and all could be watched."""
        self.number, self.inputs = number, case.inputs
        layout, timeout = case.shape.layout, SLOWER * self._settings.run_timeout_s
        self._cores.ask(self._process, {"do": "arrange", "form": layout["form"], "tensors": layout["tensors"]}, timeout)
        self._inputs[: case.image.numel()] = case.image.numpy().tobytes()
        reply = self._cores.ask(self._process, {"do": "try"}, timeout)
        if seen := _BOUNDS.search(str(reply.get("message", ""))):
            message = f"out of bounds: {seen[1]}"
            raise MemoryMistake(TrialError(trial=self.number, kind="memory", inputs=self.inputs, message=message))
        return reply.get("watched") is True


def _read_report(log: str, trial: int, inputs: str) -> TrialError | None:
    """What a sanitizer says of a line of the kernel; None: nothing."""
    if (undefined := _UNDEFINED.search(log)) is not None:
        message = f"undefined behaviour in kernel.cpp:{undefined[1]}: {undefined[2]}"
        return TrialError(trial=trial, kind="undefined", inputs=inputs, message=message)
    address = _ADDRESS.search(log)
    place = _PLACE.search(log, address.end()) if address else None
    if address is None or place is None or address[1] not in MISTAKES:
        return None
    access = _ACCESS.search(log, address.end())
    what = f"{access[1].lower()} of {access[2]} bytes" if access else "access"
    message = f"{address[1]} in kernel.cpp:{place[1]}: {what} outside of what was allocated"
    return TrialError(trial=trial, kind="memory", inputs=inputs, message=message)
