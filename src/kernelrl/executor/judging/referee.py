"""The referee: judges one candidate, from static rules to the speedup's interval. Reads top to bottom like a match."""

from __future__ import annotations

import ast
import os
import secrets
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any

import torch

from kernelrl import dialects
from kernelrl.candidate import ENTRY_POINT
from kernelrl.executor import machine, wire
from kernelrl.executor.api import DEFAULT_ARCH, ExecutorSettings, Request
from kernelrl.executor.building.builder import BadUnit, Builder
from kernelrl.executor.judging import compare
from kernelrl.executor.judging.arena import Arena, Case
from kernelrl.executor.judging.findings import Call, Findings
from kernelrl.executor.judging.reference import Draw, Reference
from kernelrl.executor.judging.timing import time_call
from kernelrl.executor.legality.operators import library_operators
from kernelrl.executor.processes.closed_library import Allowed, Closed, ClosedLibrary, LibraryStaysOpen
from kernelrl.executor.processes.cores import Cores
from kernelrl.executor.processes.process import (
    ForgedMessage,
    Needs,
    Process,
    ProcessDied,
    ProcessFailure,
    ProcessTimeout,
    nothing,
)
from kernelrl.verdict import GpuBuild, Memory, Status, TrialError, Verdict, Violation

RECORDED_ONE_IN = 8
"""Share of timed calls before which a call is recorded instead, chosen at random."""
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

    Raises:
        TaskError: the reference does not run.
        InfrastructureError: the machine failed.
        PageLearnt: the judgement must be made again.
    """
    started = time.monotonic()
    cores.clock.restart()
    found = Findings()
    try:
        source = _check_statically(request, settings, found)
        ours = reference()
        process = start(_needs(request.dialect, settings.device))
        found.layers = process.layers
        contestant = _Contestant(process, ours, settings, cores, found, request.dialect, library)
        try:
            with cores.preparing(), cores.on_device():
                contestant.load(source, builder)
                contestant.close_library()
                contestant.run_trials(source, builder)
            interpreted = request.dialect == "triton" and settings.device == "cpu"
            if settings.timing and not interpreted:
                contestant.prepare_timing()
                with cores.on_device(), cores.holding(ours.lock), cores.measuring(ours.process, process):
                    contestant.time_pairs()
            with cores.on_device():
                contestant.check_state()
        finally:
            found.log = process.log_tail()
            threading.Thread(target=process.close, daemon=True, name="closing").start()
        status: Status = "correct"
        feedback = ""
        found.stage = "correct"
    except _Ended as end:
        status, feedback = end.status, end.feedback
    return found.verdict(request, settings, status, feedback, time.monotonic() - started, cores.clock.spent())


def _needs(dialect: str, device: str) -> Needs:
    """What the process of a candidate may use."""
    if dialect == "triton" and device == "cuda":
        return "jit"
    return "library" if dialect == "python" else "nothing"


def _check_statically(request: Request, settings: ExecutorSettings, found: Findings) -> str:
    candidate = request.candidate
    if candidate is None:
        found.violations.append(Violation(rule="no_kernel", evidence=f"no complete code block defines {ENTRY_POINT}"))
        raise _Ended("illegal", f"The answer holds no complete code block that defines {ENTRY_POINT}.")
    try:
        ast.parse(candidate.source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        raise _Ended("compile_error", f"The Python source does not parse: line {line}: {error}") from None
    found.stage = "parsed"
    if settings.static_rules:
        found.violations.extend(dialects.get(candidate.dialect).find_violations(candidate.source))
    if found.violations:
        raise _Ended("illegal", "Not a genuine kernel.")
    found.stage = "legal"
    return candidate.source


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
    ):
        self.process = process
        self.ours = ours
        self.settings = settings
        self.cores = cores
        self.found = found
        self.library_is_foul = dialect != "python"
        self.library = library
        self.interpreted = dialect == "triton" and settings.device == "cpu"
        self.closed: Closed | None = None
        self.must_build = settings.static_rules and dialect in ("cpp", "cuda")
        self.arena = Arena(ours.arena_bytes, settings.device == "cuda")
        self.measures_memory = settings.device == "cpu" and dialect != "triton"
        self.state: dict[str, Any] = {}
        self.outputs: list[list[tuple[int, int]]] = []  # of the last two calls: address and number of bytes

    def load(self, source: str, builder: Builder) -> None:
        """Import the candidate and construct its model, serving the builds that it asks for."""
        found, timeout = self.found, self.settings.load_timeout_s
        try:
            self.process.watch_memory()
            self.arena.attach(self.process, timeout)
            nonce = self.process.post({"do": "load", "source": source, "entry": ENTRY_POINT} | self.ours.init)
            while "build" in (message := self.cores.next_message(self.process, nonce, timeout)):
                if len(found.builds) >= MAX_BUILDS:
                    raise self._foul("build_request", f"more than {MAX_BUILDS} native modules")
                self._serve_build(message["build"], builder)
        except ProcessFailure as error:
            raise _broke_off(error, "while it was loaded", timeout, found) from None
        failed_builds = [built for built in found.builds if not built.ok]
        if "failed" in message:
            if failed_builds:
                raise _Ended("compile_error", f"The C++ source does not compile:\n{failed_builds[0].log}")
            if message["failed"] in ("SyntaxError", "IndentationError"):
                raise _Ended("compile_error", f"The Python source does not compile: {message.get('message', '')}")
            raise _Ended("runtime_error", f"Loading failed: {message.get('message', '')}")
        if self.must_build and not found.builds:
            raise self._foul("no_kernel", "nothing was compiled")
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

    def close_library(self) -> None:
        """Close the libraries' code, before any input is there: `__init__` may compute with its parameters."""
        if not self.library_is_foul or "pages" in self.settings.allow_missing:
            return
        allowed: Allowed = "views" if self.ours.only_moves else "copies"
        try:
            self.closed = self.library.close(self.process, allowed, self.interpreted)
        except LibraryStaysOpen as error:
            raise self._foul("library_call", str(error)) from None
        except ProcessFailure as error:
            raise self._broke_off(error, "after it was loaded") from None
        self.found.layers = [*self.process.layers, "pages"]

    def run_trials(self, source: str, builder: Builder) -> None:
        """Check outputs on fresh inputs, with a record of the library operators that run.

        The values of one call are compared while the next one runs.
        """
        found = self.found
        with self.cores.holding(self.ours.lock), self.cores.making_reference():
            cases = [self.ours.case(draw) for draw in self.ours.draws()]
            reference_peak = self.ours.peak_memory() if self.measures_memory else None
        compare_values = nothing
        for case in cases:
            assert case is not None
            reply = self._call(case, {"do": "trace", "profiled": found.coverage is None}, compare_values)
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
            raise _Ended(
                "incorrect", f"Wrong output in {len(found.errors)} of {found.trials} trials: {first.message}{where}."
            )

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
            found.operators = {str(name): int(count) for name, count in list(operators.items())[:100]}
            found.coverage = None if share is None else min(1.0, max(0.0, 1.0 - share))
        if self.library_is_foul:
            computing = [f"{name!s:.100} ran {operators[name]}x" for name in library_operators(operators)]
            if (items := operators.get("aten::_local_scalar_dense", 0)) > MAX_ITEMS:
                computing.append(f"aten::_local_scalar_dense ran {items}x, so Python computes")
            found.violations += [Violation(rule="library_operator", evidence=each) for each in computing[:20]]
        if found.violations:
            raise _Ended("illegal", "PyTorch's operators did the work of the kernel.")

    def prepare_timing(self) -> None:
        """Whatever timing needs and is not timed, while others may still run."""
        try:
            with self.cores.on_device():
                self.arena.arrange(self.ours.shapes[0].layout, self._ask)
                self._ask({"do": "settle"})
                self.outputs.clear()  # those of the trials are gone by now
        except ProcessFailure as error:
            raise self._broke_off(error, "before it was timed") from None
        if self.settings.compile_baseline:
            cores = self.cores
            with cores.preparing(), cores.on_device(), cores.holding(self.ours.lock), cores.making_reference():
                compiled = self.ours.compiled()
            self.found.baseline = compiled if isinstance(compiled, str) else ""

    def time_pairs(self) -> None:
        """Time reference and candidate in turn on unseen inputs until the interval is narrow or the budget is spent.

        Further calls, at unpredictable places, are recorded instead of timed: a candidate that leaves its work to the
        library when nobody looks must guess when. The outputs of a call are looked at while the next process has its
        untimed call.
        """
        settings, found = self.settings, self.found
        deadline = time.monotonic() + settings.timing_budget_s
        compiled = self.ours.compiled() if settings.compile_baseline else ""
        recorded = {secrets.randbelow(settings.min_pairs)}
        recorded |= {turn for turn in range(settings.max_pairs) if secrets.randbelow(RECORDED_ONE_IN) == 0}
        found.load, found.clock_mhz = os.getloadavg()[0], machine.clock_mhz()
        self.ours.settle()
        for _ in range(settings.min_pairs):
            self._ask({"do": "null"})
            found.overheads.append(self.ours.time_nothing())
        look = nothing
        for turn in range(settings.max_pairs):
            case = self.ours.case(Draw(settings.trials + turn))
            assert case is not None
            if turn in recorded:
                look()  # now: the next call is the same process's, and may write where these outputs lie
                look = nothing
                reply, _ = self._time_call(case, nothing, "trace")
                self._check_call(reply, case)
                self._judge_operators(reply)
            reply, reference = self.ours.time(case, look)
            look = partial(self.ours.check, reply, case)
            baseline = None if isinstance(compiled, str) else compiled.time(case)
            reply, candidate = self._time_call(case, look)
            look = partial(self._check_call, reply, case)
            found.calls.append(Call(reference, candidate, baseline))
            if turn + 1 >= settings.min_pairs:
                scatter, common = found.widths()
                if scatter < max(settings.target_width, common) or time.monotonic() > deadline:
                    break
        look()

    def _time_call(self, case: Case, meanwhile: Callable[[], None], do: str = "run") -> tuple[dict[str, Any], float]:
        try:
            answered = time_call(self.process, self.arena, case, self.settings, meanwhile, do)
        except ProcessFailure as error:
            raise self._broke_off(error, "while it was timed") from None
        if self.process.has_children():
            raise self._foul("background_work", "a process that it started was still running when its call ended")
        return answered

    def _check_call(self, reply: dict[str, Any], case: Case) -> None:
        """Look at what a call in `time_pairs` has left."""
        self._examine(reply, case)()
        if self.found.errors:
            raise _Ended("incorrect", f"Wrong output in a timed run: {self.found.errors[0].message}.")

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
            message = str(reply.get("message", ""))
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
        elif not self.ours.reuses_outputs and not self.ours.returns_input and self._reuses(case, described):
            compare_values()
            if not found.errors:  # of what is wrong, that is all there is to say
                raise self._foul("output_reused", "an output lies in the memory of an earlier call's")
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

    def _reuses(self, case: Case, described: list[dict[str, Any]]) -> bool:
        """Whether an output lies where one of the two calls before lies: the contestant's process still holds those."""
        outputs = [
            (item["pointer"], expected.low.numel() * wire.DTYPES[expected.dtype].itemsize)
            for item, expected in zip(described, case.expected, strict=True)
        ]
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
                    outputs.append((expected, self.process.tensor(item | {"pointer": readable[index]["pointer"]})))
                except (ValueError, TypeError, LookupError) as unreadable:
                    message = f"output {index}: {unreadable}"
                    error = TrialError(trial=trial, kind="layout", inputs=case.inputs, message=message)
            if error is not None:
                errors.append(error)
        return outputs, errors

    def _broke_off(self, error: Exception, when: str) -> _Ended:
        """The end of a judgement whose process failed after it was loaded."""
        if isinstance(error, ProcessDied) and self.closed and (seen := self.library.explain(self.process, self.closed)):
            if self.library.learn(self.process, self.closed):
                raise PageLearnt
            evidence, line = seen
            self.found.violations.append(Violation(rule="library_operator", evidence=evidence, line=line))
            return _Ended("illegal", f"The library was to do the work of the kernel: {evidence}.")
        return _broke_off(error, when, self.settings.run_timeout_s, self.found)

    def _foul(self, rule: str, evidence: str) -> _Ended:
        self.found.violations.append(Violation(rule=rule, evidence=evidence))
        return _Ended("illegal", f"Broke the rule {rule}: {evidence}.")


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _broke_off(error: Exception, when: str, timeout: float, found: Findings) -> _Ended:
    if isinstance(error, ProcessTimeout):
        return _Ended("timeout", f"The candidate took longer than {timeout:g} s {when}.")
    if isinstance(error, ForgedMessage):
        found.violations.append(Violation(rule="forged_message", evidence=f"an answer nobody asked for {when}"))
        return _Ended("illegal", "The candidate wrote to the executor's channel.")
    return _Ended("killed", f"The candidate's process {error} {when}.")
