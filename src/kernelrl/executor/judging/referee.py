"""The referee: judges one candidate, from static rules to the speedup's interval. Reads top to bottom like a match."""

from __future__ import annotations

import os
import secrets
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any

import torch

from kernelrl.candidate import ENTRY_POINT, MAX_SOURCE_CHARS, Candidate
from kernelrl.errors import InfrastructureError, TaskError
from kernelrl.executor import machine, wire
from kernelrl.executor.api import DEFAULT_ARCH, ExecutorSettings, Request
from kernelrl.executor.building.builder import BadUnit, Builder, shorten
from kernelrl.executor.judging import compare, parameters
from kernelrl.executor.judging.arena import Arena, Case, num_bytes_of, overlapping
from kernelrl.executor.judging.findings import Call, Findings
from kernelrl.executor.judging.reference import Reference
from kernelrl.executor.judging.timing import time_call
from kernelrl.executor.legality.operators import library_operators
from kernelrl.executor.legality.reading import READING_S
from kernelrl.executor.processes.closed_library import Allowed, Closed, ClosedLibrary, LibraryStaysOpen
from kernelrl.executor.processes.cores import Cores
from kernelrl.executor.processes.process import (
    CANDIDATE_MESSAGE_BYTES,
    ForgedMessage,
    Needs,
    Process,
    ProcessDied,
    ProcessFailure,
    ProcessTimeout,
    nothing,
)
from kernelrl.verdict import Construction, GpuBuild, Memory, Status, TrialError, Verdict, Violation

RECORDED_ONE_IN = 8
"""Share of turns in which a call is recorded, chosen at random."""
MORE_PAIRS, MOST_PAIRS = 4, 16
"""Pairs that are added at a time when the first ones leave the interval too wide, and those timed at once at most."""
NUM_NULLS = 7
"""Questions that ask nothing before each row of pairs."""
LONG_ROW = 0.25
"""Share of turns in which a program is called twice, not once, before the call that counts."""
MAX_BUILDS = 16
"""Native modules of one candidate."""
MAX_ITEMS = 256
"""Elements that one call may fetch from tensors one by one: beyond that, Python does the kernel's work."""


class _Ended(Exception):
    """The judgement is made: nothing further needs to run."""

    def __init__(self, status: Status, feedback: str):
        super().__init__(feedback)
        self.status = status
        self.feedback = feedback


class _DiedOnClosedPage(Exception):
    """The candidate's process has died of code that is closed to it."""


class PageLearnt(Exception):
    """A candidate died on code that an allowed operator needs, and that is open from now on."""


def judge(
    request: Request,
    settings: ExecutorSettings,
    reference: Callable[[], Reference],
    start: Callable[[Needs], Process],
    builder: Builder,
    library: ClosedLibrary,
    cores: Cores,
    may_learn: bool = True,
) -> Verdict:
    """Judge one candidate.

    Args:
        request: task and candidate.
        settings: limits and number of trials.
        reference: gives the task's reference; called when the static rules have passed.
        start: starts a contestant process.
        builder: builds what the candidate asks for.
        library: closes the libraries' code in the contestant's process.
        cores: candidates are loaded, built and checked side by side; while one is timed nothing else runs.
        may_learn: let a candidate that dies on a closed page teach that it is needed.

    Raises:
        TaskError: the reference does not run.
        InfrastructureError: the machine failed.
        PageLearnt: the judgement must be made again; only where it may learn.
    """
    started = time.monotonic()
    cores.clock.restart()
    found = Findings()
    try:
        candidate = _candidate_of(request, found)
        source = candidate.source
        process = start(_needs(request.dialect, settings.device))
        process.max_message_bytes = CANDIDATE_MESSAGE_BYTES
        found.layers = process.layers
        try:
            with cores.preparing():
                _read(candidate, process, settings, cores, found)
            ours = reference()
            contestant = _Contestant(process, ours, settings, cores, found, request.dialect, library, may_learn)
            with cores.preparing(), cores.on_device():
                contestant.load(source, builder)
                contestant.run_trials(source, builder)
            interpreted = request.dialect == "triton" and settings.device == "cpu"
            if settings.timing and not interpreted:
                contestant.prepare_baseline()
                contestant.time_pairs()
            with cores.on_device():
                contestant.check_state()
        except _DiedOnClosedPage:  # here, where no lock is held: to learn takes processes of its own
            raise contestant.answer_for_death() from None
        except (_Ended, TaskError, InfrastructureError):
            raise
        except Exception as error:
            raise _blame(error, process, found) from error
        finally:
            found.log = process.log_tail()
            threading.Thread(target=process.close, daemon=True, name="closing").start()
        status: Status = "correct"
        feedback = ""
        found.stage = "correct"
    except _Ended as end:
        status, feedback = end.status, shorten(end.feedback)
    return found.verdict(request, settings, status, feedback, time.monotonic() - started, cores.clock.spent())


def _needs(dialect: str, device: str) -> Needs:
    """What the process of a candidate may use."""
    if dialect == "triton" and device == "cuda":
        return "jit"
    return "library" if dialect == "python" else "nothing"


def _candidate_of(request: Request, found: Findings) -> Candidate:
    candidate = request.candidate
    if candidate is None:
        found.violations.append(Violation(rule="no_kernel", evidence=f"no complete code block defines {ENTRY_POINT}"))
        raise _Ended("illegal", f"The answer holds no complete code block that defines {ENTRY_POINT}.")
    if len(candidate.source) > MAX_SOURCE_CHARS:
        evidence = f"{len(candidate.source)} characters; at most {MAX_SOURCE_CHARS} are read"
        found.violations.append(Violation(rule="source_too_long", evidence=evidence))
        raise _Ended("illegal", "The source is too long.")
    return candidate


def _read(candidate: Candidate, process: Process, settings: ExecutorSettings, cores: Cores, found: Findings) -> None:
    """Have the text parsed and held against the static rules in the process in which it would run."""
    question = {"do": "read", "source": candidate.source, "dialect": candidate.dialect}
    try:
        answer = cores.ask(process, question | {"static_rules": settings.static_rules}, READING_S)
    except ProcessFailure as error:
        raise _broke_off(error, "while its text was read", READING_S, found) from None
    if "failed" in answer:  # a text that the rules themselves stumble over
        raise _Ended("compile_error", f"The Python source cannot be read: {answer['message']}")
    if "unparsable" in answer:
        raise _Ended("compile_error", f"The Python source does not parse: {answer['unparsable']}")
    found.stage = "parsed"
    found.violations.extend(Violation(**each) for each in answer["violations"])
    if found.violations:
        raise _Ended("illegal", "Not a genuine kernel.")
    found.stage = "legal"


class _Contestant:
    """One candidate in its process, from import to timing. Every step may end the judgement.

    Args:
        process: where it runs.
        ours: the task's reference.
        settings: limits, trials, timing.
        cores: says when it may run.
        found: takes what is found out.
        dialect: of the candidate. In `python`, operators of PyTorch that compute are no violation.
        library: closes the libraries' code in the process.
        may_learn: see `judge`.
    """

    def __init__(
        self,
        process: Process,
        ours: Reference,
        settings: ExecutorSettings,
        cores: Cores,
        found: Findings,
        dialect: str,
        library: ClosedLibrary,
        may_learn: bool,
    ):
        self.process = process
        self.ours = ours
        self.settings = settings
        self.cores = cores
        self.found = found
        self.library_is_foul = dialect != "python"
        self.library = library
        self.may_learn = may_learn
        self.interpreted = dialect == "triton" and settings.device == "cpu"
        self.closed: Closed | None = None
        self.last_parameters = 0  # number of those after which the libraries can be closed
        self.must_build = settings.static_rules and dialect in ("cpp", "cuda")
        self.arena = Arena(ours.arena_bytes, settings)
        self.measures_memory = settings.device == "cpu" and dialect != "triton"
        self.state: dict[str, Any] = {}
        self.constructed = 0  # number of the hidden parameters that its model has
        self.report: Any = None  # what its constructor has drawn and registered
        self.outputs: list[list[tuple[int, int]]] = []  # on a GPU, of the last two calls: address and number of bytes
        self.drawn = settings.trials  # draws of the task's own inputs that it has met

    def load(self, source: str, builder: Builder) -> None:
        """Import the candidate and construct its model, serving the builds that it asks for."""
        found, timeout = self.found, self.settings.load_timeout_s
        try:
            self.process.watch_memory()
            self.arena.attach(self.process, timeout)
            loading, building_s = self.cores.stopwatch(), 0.0
            nonce = self.process.post({"do": "load", "source": source, "entry": ENTRY_POINT} | self.ours.init)
            while "build" in (message := self.cores.next_message(self.process, nonce, timeout)):
                if len(found.builds) >= MAX_BUILDS:
                    raise self._foul("build_request", f"more than {MAX_BUILDS} native modules")
                building = self.cores.stopwatch()
                self._serve_build(message["build"], builder)
                building_s += building()
        except ProcessFailure as error:
            raise _broke_off(error, "while it was loaded", timeout, found) from None
        seconds = max(loading() - building_s, 0.0)
        found.construction = Construction(candidate_ms=seconds * 1e3, reference_ms=self.ours.construction_s * 1e3)
        failed_builds = [built for built in found.builds if not built.ok]
        if "failed" in message:
            if failed_builds:
                raise _Ended("compile_error", f"The C++ source does not compile:\n{failed_builds[0].log}")
            if message["failed"] in ("SyntaxError", "IndentationError"):
                raise _Ended("compile_error", f"The Python source does not compile: {message.get('message', '')}")
            raise _Ended("runtime_error", f"Loading failed: {message.get('message', '')}")
        if self.must_build and not found.builds:
            raise self._foul("no_kernel", "nothing was compiled")
        self.report = message.get("parameters")
        if self.ours.has_parameters and not self.ours.parameters_vary:
            found.parameters = "same_seed"
        self.state = self._read_state() | self.process.settings
        found.stage = "compiled"

    def _serve_build(self, unit: Any, builder: Builder) -> None:
        unit = unit if isinstance(unit, dict) else {}
        try:
            if unit.get("cuda") and self.settings.device == "cpu":
                self._compile_only(unit, builder)
            with self.cores.off_device():
                built = builder.build(unit)
        except BadUnit as refusal:
            self.found.violations.append(Violation(rule=refusal.rule, evidence=refusal.evidence))
            raise _Ended("illegal", f"The build was refused: {refusal.evidence}.") from None
        self.found.builds.append(built)
        self.found.final &= built.final
        if built.out_of_time:  # a candidate that asks for one after the other would keep the compilers for ever
            raise _Ended("compile_error", f"The C++ source does not compile: {built.log}")
        if self.settings.static_rules and built.foul:
            self.found.violations += [Violation(rule=rule, evidence=evidence) for rule, evidence in built.foul[:20]]
            raise _Ended("illegal", "The native code does what no kernel needs.")
        if built.path is None:
            self.process.reply({"ok": False, "log": built.log})
        else:
            path = self.process.offer_module(built.path, unit["name"])
            self.process.reply({"ok": True, "log": "", "path": str(path)})

    def _compile_only(self, unit: dict[str, Any], builder: Builder) -> None:
        """CUDA without a GPU: that it compiles is all that can be found out."""
        arch = self.settings.gpu_arch or DEFAULT_ARCH
        ok, log, kernels = builder.compile_cuda(unit, arch)
        if not ok:
            raise _Ended("compile_error", f"The CUDA source does not compile for {arch}:\n{log}")
        self.found.gpu_builds = [GpuBuild(**kernel) for kernel in kernels]
        self.found.stage = "compiled"
        raise _Ended("not_run", f"Compiled for {arch} and not run: there is no GPU here.")

    def _close_library(self) -> None:
        """Close the libraries' code. Before, `__init__` may compute with its parameters."""
        if not self.library_is_foul or "pages" in self.settings.allow_missing:
            return
        allowed: Allowed = "views" if self.ours.only_moves else "copies"
        try:
            self.closed = self.library.close(self.process, self._ask, allowed, self.interpreted)
        except LibraryStaysOpen as error:
            raise self._foul("library_call", str(error)) from None
        except ProcessFailure as error:
            raise self._broke_off(error, "after it was constructed") from None
        self.found.layers = [*self.process.layers, "pages"]

    def run_trials(self, source: str, builder: Builder) -> None:
        """Check outputs on fresh inputs, with a record of the library operators that run.

        The values of one call are compared while the next one runs.
        """
        found = self.found
        found.draws = self.ours.name_of_draws
        with self.cores.holding(self.ours.lock), self.cores.making_reference():
            cases = [self.ours.case(draw) for draw in self.ours.draws()]
            reference_peak = self.ours.peak_memory() if self.measures_memory else None
            timed = self.settings.timing and not self.interpreted
            last = self.ours.timed_draw(0) if timed else self.ours.draws()[-1]
            self.last_parameters = last.parameters
        compare_values = nothing
        for case in cases:
            assert case is not None
            self._take_parameters(case.parameters, case)
            reply = self._call(
                case, {"do": "run", "recorded": True, "profiled": found.coverage is None}, compare_values
            )
            if found.memory is None and reference_peak is not None:
                peak = self.process.peak_memory(self.ours.arena_bytes)
                found.memory = Memory(candidate_mb=peak / 2**20, reference_mb=reference_peak / 2**20)
            compare_values = self._examine(reply, case)
            self._judge_operators(reply)
            if found.stage == "compiled":
                self._assemble(reply, source, builder)
            found.stage = "ran"
        compare_values()
        if found.errors:
            first = found.errors[0]
            where = "" if first.inputs == "task" else f" on hidden inputs ({first.inputs})"
            where += ", with hidden parameters" if found.parameters in ("keyed", "by_name") else ""
            raise _Ended(
                "incorrect", f"Wrong output in {len(found.errors)} of {found.trials} trials: {first.message}{where}."
            )

    def _take_parameters(self, number: int, case: Case) -> None:
        """Have the candidate construct its model with other parameters, and close the libraries after the last ones."""
        if number != self.constructed:
            self._construct_anew(number, case)
        if number == self.last_parameters and self.closed is None:
            self._close_library()

    def _construct_anew(self, number: int, case: Case) -> None:
        """Have the candidate construct its model with the reference's hidden parameters of that number.

        Where it is not sure whether it holds them in a form of its own, a call on the case shows.
        """
        self.check_state()
        ours = self.ours
        with self.cores.holding(ours.lock), self.cores.making_reference():
            hidden = ours.hidden(number)
        given = parameters.match_given(ours.constructed, hidden.given, self.report)
        report = self._construct(hidden.hidden, given)
        astray, sure = parameters.find_astray(hidden.report, report)
        if astray and not sure and self.found.parameters is None and self._accepted(case):
            astray = {}
        if astray and (sure or self.found.parameters != "keyed"):
            with self.cores.holding(ours.lock), self.cores.making_reference():
                values = ours.values(number, list(astray.values()))
            self._construct(hidden.hidden, given | dict(zip(astray, values, strict=True)))
            self.found.parameters = "by_name"
        self.found.parameters = self.found.parameters or "keyed"
        self.constructed = number
        self.outputs.clear()
        self.state = self._read_state() | self.process.settings

    def _accepted(self, case: Case) -> bool:
        """Whether a call gives the expected outputs. Nothing is judged by it."""
        reply = self._call(case, {"do": "run"}, nothing)
        described, readable = _as_list(reply.get("tensors")), _as_list(self.arena.outputs(reply, self._ask))
        outputs, errors = self._read(case, reply.get("done"), described, readable, 0)
        return not errors and all(expected.accepts(output) for expected, output in outputs)

    def _construct(self, hidden: str, given: dict[int, torch.Tensor]) -> Any:
        timeout = self.settings.load_timeout_s

        def ask(message: dict[str, Any], fds: tuple[int, ...]) -> dict[str, Any]:
            return self.cores.ask(self.process, message, timeout, fds=fds)

        try:
            reply = parameters.construct(ask, hidden, given)
        except ProcessFailure as error:
            raise _broke_off(error, "while it was constructed again", timeout, self.found) from None
        if "build" in reply:
            raise self._foul("build_request", "a build that was not needed when it was first constructed")
        if "failed" in reply:
            message = reply.get("message", "")
            raise _Ended("runtime_error", f"Constructing {ENTRY_POINT} again failed: {message}")
        return reply.get("parameters")

    def _assemble(self, reply: dict[str, Any], source: str, builder: Builder) -> None:
        """Compile the Triton kernels that the interpreter has just run for a named GPU."""
        arch, launches = self.settings.gpu_arch, reply.get("launches")
        if arch is None or not isinstance(launches, list) or not launches:
            return
        try:
            self.found.gpu_builds = [GpuBuild(**each) for each in builder.assemble(source, launches, arch)]
        except (ValueError, TypeError, KeyError) as error:
            raise self._foul("forged_message", f"a record of launches that is none: {error!s:.100}") from None
        for built in self.found.gpu_builds:
            if not built.ok:
                self.found.stage = "legal"
                raise _Ended("compile_error", f"{built.kernel} does not compile for {arch}:\n{built.log}")

    def _call(self, case: Case, question: dict[str, Any], meanwhile: Callable[[], None]) -> dict[str, Any]:
        """One call of `forward` that is not timed."""
        try:
            self.arena.arrange(case.shape.layout, self._ask)
            self.arena.put(case.image, self._ask)
            return self._ask(question, meanwhile)
        except ProcessFailure as error:
            raise self._broke_off(error, "while it ran") from None
        except ValueError as error:
            raise self._foul("forged_message", str(error)) from None

    def _ask(self, message: dict[str, Any], meanwhile: Callable[[], None] = nothing) -> dict[str, Any]:
        return self.cores.ask(self.process, message, self.settings.run_timeout_s, meanwhile)

    def _judge_operators(self, reply: dict[str, Any]) -> None:
        found = self.found
        operators, share = reply.get("operators"), reply.get("library_share")
        if not (
            isinstance(operators, dict)
            and all(isinstance(count, int) for count in operators.values())
            and (isinstance(share, float) or (share is None and self.settings.device == "cuda"))
        ):
            raise self._foul("forged_message", "an answer without the record of operators")
        if found.operators is None:
            found.operators = {str(name)[:100]: int(count) for name, count in list(operators.items())[:100]}
            found.coverage = None if share is None else min(1.0, max(0.0, 1.0 - share))
        if self.library_is_foul:
            computing = [f"{name!s:.100} ran {operators[name]}x" for name in library_operators(operators)]
            if (items := operators.get("aten::_local_scalar_dense", 0)) > MAX_ITEMS:
                computing.append(f"aten::_local_scalar_dense ran {items}x, so Python computes")
            found.violations += [Violation(rule="library_operator", evidence=each) for each in computing[:20]]
        if found.violations:
            raise _Ended("illegal", "PyTorch's operators did the work of the kernel.")

    def prepare_baseline(self) -> None:
        """Compile the reference, where that is asked for, while others may still run."""
        cores = self.cores
        if self.settings.compile_baseline:
            with cores.preparing(), cores.on_device(), cores.holding(self.ours.lock), cores.making_reference():
                compiled = self.ours.compiled()
            self.found.baseline = compiled if isinstance(compiled, str) else ""

    def time_pairs(self) -> None:
        """Time reference and candidate in turn on unseen inputs until the interval is narrow or the budget is spent.

        Inputs are drawn before the cores are stopped for this candidate, and outputs compared after that.
        """
        settings, found, cores = self.settings, self.found, self.cores
        deadline = time.monotonic() + settings.timing_budget_s
        found.load, found.clock_mhz = os.getloadavg()[0], machine.clock_mhz()
        num_turns = min(settings.min_pairs, MOST_PAIRS)
        while num_turns:
            with cores.preparing(), cores.on_device(), cores.holding(self.ours.lock), cores.making_reference():
                rows = [self._draw_row() for _ in range(1 + num_turns)]
                recorded = {1 + secrets.randbelow(num_turns)} if not found.calls else set()
                recorded |= {turn for turn in range(1, 1 + num_turns) if secrets.randbelow(RECORDED_ONE_IN) == 0}
                extra = {turn: self._draw() for turn in recorded}
            first = rows[0][0]
            with cores.preparing(), cores.on_device():
                self._take_parameters(first.parameters, first)
            with cores.on_device(), cores.holding(self.ours.lock):
                self.ours.take_parameters(first.parameters)
                with cores.measuring(self.ours.process, self.process):
                    checks = self._time_rows(rows, extra)
            for check in checks:
                check()
            if found.errors:
                raise _Ended("incorrect", f"Wrong output in a timed run: {found.errors[0].message}.")
            if (missing := settings.min_pairs - len(found.calls)) > 0:
                num_turns = min(missing, MOST_PAIRS)
                continue
            scatter, common = found.widths()
            wide = scatter >= max(settings.target_width, common) and time.monotonic() < deadline
            num_turns = min(MORE_PAIRS, settings.max_pairs - len(found.calls)) if wide else 0

    def _draw_row(self) -> list[Case]:
        """Fresh inputs for the calls of one turn: the last one counts, and none can tell whether it is the last."""
        return [self._draw() for _ in range(3 if secrets.randbelow(1000) < 1000 * LONG_ROW else 2)]

    def _draw(self) -> Case:
        case = self.ours.case(self.ours.timed_draw(self.drawn))
        self.drawn += 1
        assert case is not None
        return case

    def _time_rows(self, rows: list[list[Case]], recorded: dict[int, Case]) -> list[Callable[[], None]]:
        """Time the calls of some turns; those of the first one only bring both processes to the state of the others.

        Args:
            rows: inputs of each turn.
            recorded: by turn, inputs of a further call of the candidate, with a record of operators: one that leaves
                its work to the library when nobody looks must guess when.

        Returns:
            What is left to do: the comparisons of all outputs.
        """
        found, ours, checks = self.found, self.ours, list[Callable[[], None]]()
        compiled = ours.compiled() if self.settings.compile_baseline else ""
        for _ in range(NUM_NULLS):
            self._ask({"do": "null"})
            found.overheads.append(ours.time_nothing())
        for turn, row in enumerate(rows):
            reference, candidate = [], []
            for case in row:
                outputs, seconds = ours.time(case)
                reference.append(seconds)
            checks.append(partial(ours.check, outputs, case))
            baseline = None if isinstance(compiled, str) else [compiled.time(case) for case in row][-1]
            if turn in recorded:
                reply, _ = self._time_call(recorded[turn], recorded=True)
                checks.append(self._examine(reply, recorded[turn]))
                self._judge_operators(reply)
            for case in row:
                reply, seconds = self._time_call(case)
                candidate.append(seconds)
                checks.append(self._examine(reply, case))
            self.cores.clock.calls += sum(reference) + sum(candidate)
            if turn:
                call = Call(reference.pop(), candidate.pop(), baseline, tuple(reference), tuple(candidate))
                found.calls.append(call)
        return checks

    def _time_call(self, case: Case, recorded: bool = False) -> tuple[dict[str, Any], float]:
        try:
            answered = time_call(self.process, self.arena, case, self.settings, recorded)
        except ProcessFailure as error:
            raise self._broke_off(error, "while it was timed") from None
        except ValueError as error:
            raise self._foul("forged_message", str(error)) from None
        if self.settings.device == "cuda" and self.process.has_children():
            raise self._foul("background_work", "a process that it started was still running when its call ended")
        return answered

    def check_state(self) -> None:
        """Parameters, random numbers and global settings must be as they were, unless the reference changes them."""
        try:
            after = self._read_state()
        except ProcessFailure as error:
            raise self._broke_off(error, "after it ran") from None
        changed = [name for name, value in self.state.items() if after.get(name) != value]
        for name in changed:
            if name in self.ours.changes_state:
                continue
            if name == "parameters":
                raise self._foul("parameters_mutated", "forward changed the model's parameters or buffers")
            raise self._foul("state_changed", f"{name}: {self.state[name]!s:.50} became {after.get(name)!s:.50}")

    def _read_state(self) -> dict[str, Any]:
        state = self._ask({"do": "state"}).get("state")
        return state if isinstance(state, dict) else {}

    def _examine(self, reply: dict[str, Any], case: Case) -> Callable[[], None]:
        """After one call, with the process frozen: read the outputs and look for foul play.

        Returns:
            The comparison of the values that were read, which needs the process no more.
        """
        found = self.found
        trial = found.trials
        found.trials += 1
        if "failed" in reply:
            message = shorten(str(reply.get("message", "")))
            found.errors.append(TrialError(trial=trial, kind="exception", inputs=case.inputs, message=message))
            raise _Ended("runtime_error", f"The kernel raised an exception: {message}")
        described = _as_list(reply.get("tensors"))
        try:
            readable = _as_list(self.arena.outputs(reply, self._ask))
        except ProcessFailure as error:
            raise self._broke_off(error, "after it ran") from None
        outputs, errors = self._read(case, reply.get("done"), described, readable, trial)
        found.errors.extend(errors)
        self._check_inputs(case, trial)
        if not self.ours.returns_input:
            for item in described:
                if isinstance(item, dict) and self.arena.owns(item.get("pointer")):
                    raise self._foul("output_aliases_input", "an output lies in the memory of an input")

        def compare_values() -> None:
            for expected, output in outputs:
                if not expected.accepts(output):
                    found.errors.append(expected.mismatch(trial, case.inputs, output))

        if errors:
            self.outputs.clear()
        elif (reused := self._reused(case, described)) is not None:
            compare_values()
            if not found.errors:  # of what is wrong, that is all there is to say
                raise self._foul("output_reused", reused)
            return nothing
        return compare_values

    def _check_inputs(self, case: Case, trial: int) -> None:
        """Inputs are as they were written, and those that the reference changes as it changes them."""
        changed = self.arena.changed(case.image, case.shape.layout)
        if any(index not in case.changed for index in changed):
            raise self._foul("input_mutated", "forward changed an input that the reference does not change")
        if case.changed:
            inputs = self.arena.inputs(case.shape.layout)
            for index, expected in case.changed.items():
                if not expected.accepts(inputs[index]):
                    self.found.errors.append(expected.mismatch(trial, case.inputs, inputs[index]))

    def _reused(self, case: Case, described: list[dict[str, Any]]) -> str | None:
        """What shows that an output was not made in this call, or not by itself; None: nothing does."""
        if self.settings.device == "cuda":
            if self.ours.reuses_outputs or self.ours.returns_input or not self._reuses(case, described):
                return None
            return "an output lies in the memory of an earlier call's"
        for index, (item, fresh) in enumerate(zip(described, case.shape.fresh, strict=True)):
            if fresh and num_bytes_of(item) and not self.arena.is_of_the_call(item):
                return f"output {index} does not lie in memory that was allocated during the call"
        for first, second in overlapping(described) - case.shape.shared:
            return f"outputs {first} and {second} share memory"
        return None

    def _reuses(self, case: Case, described: list[dict[str, Any]]) -> bool:
        """Whether an output lies where one of the two calls before lies: the contestant's process still holds those."""
        outputs = [(item["pointer"], num_bytes_of(item)) for item in described]
        before = list(chain.from_iterable(self.outputs))
        self.outputs = [*self.outputs[-1:], outputs]
        return any(
            num_bytes and pointer < earlier + earlier_bytes and earlier < pointer + num_bytes
            for pointer, num_bytes in outputs
            for earlier, earlier_bytes in before
        )

    def _read(
        self, case: Case, form: Any, described: list[Any], readable: list[Any], trial: int
    ) -> tuple[list[tuple[compare.Expected, torch.Tensor]], list[TrialError]]:
        """Copies of outputs, with what they should be, and what is wrong with their form."""
        try:
            form = wire.normalised(form)
        except RecursionError:
            form = None
        if form != case.shape.form or len(described) != len(case.expected):
            message = f"forward returned {len(described)} tensors in another structure, expected {len(case.expected)}"
            return [], [TrialError(trial=trial, kind="count", inputs=case.inputs, message=message)]
        outputs, errors = [], []
        for index, (expected, item) in enumerate(zip(case.expected, described, strict=True)):
            error = compare.form_error(trial, case.inputs, index, expected, item)
            if error is None:
                try:
                    at = item | {"pointer": readable[index]["pointer"]}
                    outputs.append((expected, self.arena.tensor(self.process, at)))
                except (ValueError, TypeError, LookupError) as unreadable:
                    message = f"output {index}: {unreadable}"
                    error = TrialError(trial=trial, kind="layout", inputs=case.inputs, message=message)
            if error is not None:
                errors.append(error)
        return outputs, errors

    def _broke_off(self, error: ProcessFailure, when: str) -> Exception:
        """The end of a judgement whose process failed after it was loaded."""
        if isinstance(error, ProcessDied) and self.closed and self.library.explain(self.process, self.closed):
            return _DiedOnClosedPage()
        return _broke_off(error, when, self.settings.run_timeout_s, self.found)

    def answer_for_death(self) -> Exception:
        """The end of a judgement whose process died on a closed page: another one, if an allowed operator needs it."""
        assert self.closed is not None
        seen = self.library.explain(self.process, self.closed)
        assert seen is not None
        if self.may_learn and self.library.learn(self.process, self.closed):
            return PageLearnt()
        evidence, line = seen
        self.found.violations.append(Violation(rule="library_operator", evidence=evidence, line=line))
        return _Ended("illegal", f"The library was to do the work of the kernel: {evidence}.")

    def _foul(self, rule: str, evidence: str) -> _Ended:
        self.found.violations.append(Violation(rule=rule, evidence=evidence))
        return _Ended("illegal", f"Broke the rule {rule}: {evidence}.")


def _blame(error: Exception, process: Process, found: Findings) -> Exception:
    """Whose fault an error is that nobody foresaw: what a candidate can provoke must not pass for a broken machine."""
    if isinstance(error, OSError) and process.alive:  # a full disk, say
        return error
    found.final = False
    if process.alive:
        traceback.print_exception(error)  # on the service's own log: it may as well be a mistake in this program
    return _Ended("killed", f"The executor can make nothing of what the candidate did ({type(error).__name__}).")


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _broke_off(error: ProcessFailure, when: str, timeout: float, found: Findings) -> _Ended:
    found.final &= error.final
    if isinstance(error, ProcessTimeout):
        return _Ended("timeout", f"The candidate took longer than {timeout:g} s {when}.")
    if isinstance(error, ForgedMessage):
        found.violations.append(Violation(rule="forged_message", evidence=f"an answer nobody asked for {when}"))
        return _Ended("illegal", "The candidate wrote to the executor's channel.")
    return _Ended("killed", f"The candidate's process {error} {when}.")
