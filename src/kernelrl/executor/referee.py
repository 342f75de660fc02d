"""The referee: judges one candidate, from static rules to the speedup's interval. Reads top to bottom like a match."""

from __future__ import annotations

import ast
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from kernelrl import dialects
from kernelrl.candidate import ENTRY_POINT
from kernelrl.executor import compare, wire
from kernelrl.executor.api import ExecutorSettings, Request
from kernelrl.executor.builder import BadUnit, Builder, Built, shorten
from kernelrl.executor.cores import Cores
from kernelrl.executor.operators import library_operators
from kernelrl.executor.process import ForgedMessage, Process, ProcessDied, ProcessTimeout
from kernelrl.executor.reference import Arena, Case, Reference, normalised
from kernelrl.stats import bootstrap_interval
from kernelrl.verdict import Build, Speedup, Stage, Status, TrialError, Verdict, Violation


class _Ended(Exception):
    """The judgement is made: nothing further needs to run."""

    def __init__(self, status: Status, feedback: str):
        super().__init__(feedback)
        self.status = status
        self.feedback = feedback


@dataclass
class _Findings:
    """What becomes the verdict."""

    stage: Stage = "none"
    violations: list[Violation] = field(default_factory=list)
    errors: list[TrialError] = field(default_factory=list)
    trials: int = 0
    builds: list[Built] = field(default_factory=list)
    pairs: list[tuple[float, float]] = field(default_factory=list)
    operators: dict[str, int] | None = None
    coverage: float | None = None
    log: str = ""


def judge(
    request: Request,
    settings: ExecutorSettings,
    reference: Callable[[], Reference],
    start: Callable[[], Process],
    builder: Builder,
    cores: Cores,
) -> Verdict:
    """Judge one candidate.

    Args:
        request: task and candidate.
        settings: limits and number of trials.
        reference: gives the task's reference; called when the static rules have passed.
        start: starts a contestant process.
        builder: builds what the candidate asks for.
        cores: candidates are loaded, built and checked side by side; while one is timed nothing else runs.

    Raises:
        TaskError: the reference does not run.
        InfrastructureError: the machine failed.
    """
    started = time.monotonic()
    found = _Findings()
    try:
        source = _check_statically(request, found)
        ours = reference()
        process = start()
        try:
            with cores.preparing():
                arena = _load(process, source, ours, settings, builder, cores, found)
                _run_trials(process, arena, ours, settings, cores, found)
            interpreted = request.dialect == "triton" and not torch.cuda.is_available()
            if settings.timing and not interpreted:
                with ours.lock, cores.measuring(), ours.alone():
                    _time_pairs(process, arena, ours, settings, found)
        finally:
            found.log = process.log_tail()
            process.close()
        status: Status = "correct"
        feedback = ""
        found.stage = "correct"
    except _Ended as end:
        status, feedback = end.status, end.feedback
    return _verdict(request, settings, found, status, feedback, time.monotonic() - started)


def _check_statically(request: Request, found: _Findings) -> str:
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
    found.violations.extend(dialects.get(candidate.dialect).find_violations(candidate.source))
    if found.violations:
        raise _Ended("illegal", "Not a genuine kernel.")
    found.stage = "legal"
    return candidate.source


def _load(
    process: Process,
    source: str,
    ours: Reference,
    settings: ExecutorSettings,
    builder: Builder,
    cores: Cores,
    found: _Findings,
) -> Arena:
    """Import the candidate and construct its model, serving the builds that it asks for."""
    arena = Arena(ours.layout)
    try:
        arena.attach(process, settings.load_timeout_s)
        message: dict[str, Any] = {"do": "load", "source": source, "entry": ENTRY_POINT} | ours.init
        nonce = process.post(message)
        left = settings.load_timeout_s
        while "build" in (message := cores.next_message(process, nonce, left)):
            _serve_build(process, message["build"], builder, found)
    except (ProcessDied, ProcessTimeout, ForgedMessage) as error:
        raise _broke_off(error, "while it was loaded", settings.load_timeout_s, found) from None
    failed_builds = [built for built in found.builds if not built.ok]
    if "failed" in message:
        if failed_builds:
            raise _Ended("compile_error", f"The C++ source does not compile:\n{failed_builds[0].log}")
        if message["failed"] in ("SyntaxError", "IndentationError"):
            raise _Ended("compile_error", f"The Python source does not compile: {message.get('message', '')}")
        raise _Ended("runtime_error", f"Loading failed: {message.get('message', '')}")
    found.stage = "compiled"
    return arena


def _serve_build(process: Process, unit: Any, builder: Builder, found: _Findings) -> None:
    try:
        built = builder.build(unit if isinstance(unit, dict) else {})
    except BadUnit as refusal:
        found.violations.append(Violation(rule=refusal.rule, evidence=refusal.evidence))
        raise _Ended("illegal", f"The build was refused: {refusal.evidence}.") from None
    found.builds.append(built)
    if built.path is None:
        process.reply({"ok": False, "log": built.log})
    else:
        with open(built.path, "rb") as file:
            process.reply({"ok": True, "log": ""}, fds=(file.fileno(),))


def _run_trials(
    process: Process, arena: Arena, ours: Reference, settings: ExecutorSettings, cores: Cores, found: _Findings
) -> None:
    """Check outputs on fresh inputs. The first trial also records which library operators ran."""
    for trial in range(settings.trials):
        with ours.lock:
            case = ours.case(trial)
        arena.bytes.copy_(case.image)
        try:
            nonce = process.post({"do": "run" if trial else "trace"})
            reply = cores.next_message(process, nonce, settings.run_timeout_s)
        except (ProcessDied, ProcessTimeout, ForgedMessage) as error:
            raise _broke_off(error, "while it ran", settings.run_timeout_s, found) from None
        _examine(reply, process, arena, ours, case, found)
        if trial == 0:
            _judge_operators(reply, found)
        found.stage = "ran"
    if found.errors:
        first = found.errors[0]
        raise _Ended("incorrect", f"Wrong output in {len(found.errors)} of {found.trials} trials: {first.message}.")


def _judge_operators(reply: dict[str, Any], found: _Findings) -> None:
    operators, share = reply.get("operators"), reply.get("library_share")
    if not isinstance(operators, dict) or not isinstance(share, float):
        return
    found.operators = {str(name): int(count) for name, count in list(operators.items())[:100]}
    found.coverage = min(1.0, max(0.0, 1.0 - share))
    for name in library_operators(found.operators):
        evidence = f"{name} ran {found.operators[name]}x in one call"
        found.violations.append(Violation(rule="library_operator", evidence=evidence))
    if found.violations:
        raise _Ended("illegal", "PyTorch's operators did the work of the kernel.")


def _time_pairs(process: Process, arena: Arena, ours: Reference, settings: ExecutorSettings, found: _Findings) -> None:
    """Time (reference, candidate) pairs on unseen inputs until the interval is narrow or the budget is spent."""
    deadline = time.monotonic() + settings.timing_budget_s
    for pair in range(settings.max_pairs):
        case = ours.case(settings.trials + pair)
        before = ours.time(case) if pair % 2 == 0 else None
        arena.bytes.copy_(case.image)
        try:
            reply, seconds = process.ask({"do": "run"}, settings.run_timeout_s)
        except (ProcessDied, ProcessTimeout, ForgedMessage) as error:
            raise _broke_off(error, "while it was timed", settings.run_timeout_s, found) from None
        _examine(reply, process, arena, ours, case, found)
        if found.errors:
            raise _Ended("incorrect", f"Wrong output in a timed run: {found.errors[0].message}.")
        found.pairs.append((ours.time(case) if before is None else before, seconds))
        if pair + 1 >= settings.min_pairs:
            low, high = bootstrap_interval(_ratios(found))
            if high - low < settings.target_width * float(np.median(_ratios(found))) or time.monotonic() > deadline:
                return


def _ratios(found: _Findings) -> list[float]:
    return [ours / theirs for ours, theirs in found.pairs]


def _examine(
    reply: dict[str, Any], process: Process, arena: Arena, ours: Reference, case: Case, found: _Findings
) -> None:
    """After one call, with the process frozen: read and compare the outputs, and look for foul play."""
    trial = found.trials
    found.trials += 1
    if "failed" in reply:
        message = str(reply.get("message", ""))
        found.errors.append(TrialError(trial=trial, kind="exception", message=message))
        raise _Ended("runtime_error", f"The kernel raised an exception: {message}")
    described = reply.get("tensors")
    if not isinstance(described, list):
        described = []
    found.errors.extend(_compare(process, case, ours, reply.get("done"), described, trial))
    if not torch.equal(arena.bytes, case.after):
        _foul(found, "input_mutated", "forward changed its inputs, which the reference does not")
    if not ours.returns_input:
        for item in described:
            pointer = item.get("pointer") if isinstance(item, dict) else None
            if isinstance(pointer, int) and arena.address <= pointer < arena.address + ours.layout["size"]:
                _foul(found, "output_aliases_input", "an output lies in the memory of an input")


def _compare(
    process: Process, case: Case, ours: Reference, form: Any, described: list[Any], trial: int
) -> list[TrialError]:
    if normalised(form) != ours.form or len(described) != len(case.expected):
        message = f"forward returned {len(described)} tensors in another structure, expected {len(case.expected)}"
        return [TrialError(trial=trial, kind="count", message=message)]
    errors = []
    for index, (expected, item) in enumerate(zip(case.expected, described, strict=True)):
        error = compare.form_error(trial, index, expected, item)
        if error is None:
            span = wire.span_bytes(item["shape"], item["stride"], wire.DTYPES[item["dtype"]].itemsize)
            try:
                output = compare.as_output(process.read(item["pointer"], span), item)
            except ValueError as unreadable:
                error = TrialError(trial=trial, kind="layout", message=f"output {index}: {unreadable}")
            else:
                error = None if expected.accepts(output) else expected.mismatch(trial, output)
        if error is not None:
            errors.append(error)
    return errors


def _foul(found: _Findings, rule: str, evidence: str) -> None:
    found.violations.append(Violation(rule=rule, evidence=evidence))
    raise _Ended("illegal", f"Broke the rule {rule}: {evidence}.")


def _broke_off(error: Exception, when: str, timeout: float, found: _Findings) -> _Ended:
    if isinstance(error, ProcessTimeout):
        return _Ended("timeout", f"The candidate took longer than {timeout:g} s {when}.")
    if isinstance(error, ForgedMessage):
        found.violations.append(Violation(rule="forged_message", evidence=f"an answer nobody asked for {when}"))
        return _Ended("illegal", "The candidate wrote to the executor's channel.")
    return _Ended("killed", f"The candidate's process {error} {when}.")


def _verdict(
    request: Request, settings: ExecutorSettings, found: _Findings, status: Status, feedback: str, seconds: float
) -> Verdict:
    if found.violations:
        status = "illegal"
        feedback += " " + "; ".join(
            f"{item.rule}: {item.evidence}" + (f" (line {item.line})" if item.line else "")
            for item in found.violations[:5]
        )
    speedup = reference_ms = candidate_ms = None
    if status == "correct" and found.pairs:
        low, high = bootstrap_interval(_ratios(found))
        speedup = Speedup(median=float(np.median(_ratios(found))), low=low, high=high, pairs=len(found.pairs))
        reference_ms = float(np.median([ours for ours, _ in found.pairs])) * 1e3
        candidate_ms = float(np.median([theirs for _, theirs in found.pairs])) * 1e3
        times = f"{candidate_ms:.3f} ms against {reference_ms:.3f} ms"
        feedback = f"Correct. {times}: {speedup.median:.2f}x ({low:.2f}–{high:.2f})."
    elif status == "correct":
        feedback = "Correct. Not timed."
    build = None
    if found.builds:
        build = Build(
            ok=all(built.ok for built in found.builds),
            seconds=sum(built.seconds for built in found.builds),
            cached=all(built.cached for built in found.builds),
            units=len(found.builds),
            log=shorten("\n".join(built.log for built in found.builds).strip()),
        )
    return Verdict(
        task_id=request.task.id,
        candidate=request.candidate.digest if request.candidate else None,
        status=status,
        stage=found.stage,
        dialect=request.dialect,
        device="cpu",
        violations=tuple(found.violations),
        errors=tuple(found.errors),
        trials=found.trials,
        reference_ms=reference_ms,
        candidate_ms=candidate_ms,
        speedup=speedup,
        coverage=found.coverage,
        operators=found.operators,
        build=build,
        feedback=shorten(feedback.strip()),
        log=found.log,
        protocol=settings.protocol,
        interpreted=request.dialect == "triton" and found.trials > 0,
        seconds=seconds,
    )
