"""The referee: judges one candidate, from static rules to the speedup's interval. Reads top to bottom like a match."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from kernelrl.candidate import MAX_SOURCE_CHARS, Candidate
from kernelrl.errors import InfrastructureError, TaskError
from kernelrl.executor.api import ExecutorSettings, Request
from kernelrl.executor.building.builder import Builder
from kernelrl.executor.building.compilers import shorten
from kernelrl.executor.judging.bound import Bounds
from kernelrl.executor.judging.candidate_process import CandidateProcess
from kernelrl.executor.judging.endings import DiedOnClosedPage, Ended, blame, broke_off
from kernelrl.executor.judging.findings import Findings
from kernelrl.executor.judging.hidden_parameters import HiddenParameters
from kernelrl.executor.judging.loading import load
from kernelrl.executor.judging.match import Match
from kernelrl.executor.judging.nsight import Profile
from kernelrl.executor.judging.outputs import Outputs
from kernelrl.executor.judging.pairs import Pairs
from kernelrl.executor.judging.reference import Reference
from kernelrl.executor.judging.sanitizing import MemoryMistake
from kernelrl.executor.judging.second_look import look_again
from kernelrl.executor.judging.trials import run_trials
from kernelrl.executor.legality.reading import READING_S
from kernelrl.executor.processes.closed_library import ClosedLibrary
from kernelrl.executor.processes.cores import Cores
from kernelrl.executor.processes.failures import ProcessFailure
from kernelrl.executor.processes.process import CANDIDATE_MESSAGE_BYTES, Needs, Process
from kernelrl.verdict import Status, Verdict, Violation


def judge(
    request: Request,
    settings: ExecutorSettings,
    get_reference: Callable[[], Reference],
    start: Callable[[Needs], Process],
    builder: Builder,
    library: ClosedLibrary,
    cores: Cores,
    bounds: Bounds,
    profile: Callable[[str, str, tuple[Path, ...], tuple[tuple[int, ...], ...] | None], Profile] | None,
    may_learn: bool = True,
) -> Verdict:
    """Judge one candidate.

    Args:
        request: task and candidate.
        settings: limits and number of trials.
        get_reference: gives the task's reference; called when the static rules have passed.
        start: starts a contestant process.
        builder: builds what the candidate asks for.
        library: closes the libraries' code in the contestant's process.
        cores: candidates are loaded, built and checked side by side; while one is timed nothing else runs.
        bounds: the time below which no program can do a task.
        profile: reads counters of the device, see `Profiler.profile`; None: nobody asked for them.
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
        process = start(_needs(request.dialect, settings.device))
        process.max_message_bytes = CANDIDATE_MESSAGE_BYTES
        found.layers = process.layers
        try:
            with cores.preparing():
                unreached = _read_text(candidate, process, settings, cores, found)
            match = Match(
                candidate=candidate,
                reference=get_reference(),
                settings=settings,
                start=start,
                builder=builder,
                library=library,
                cores=cores,
                found=found,
                unreached=unreached,
                dialect=request.dialect,
                may_learn=may_learn,
            )
            own = CandidateProcess(match, process)
            outputs = Outputs(own)
            hidden = HiddenParameters(own, outputs)
            with cores.preparing(), cores.on_device():
                load(own)
                passed = run_trials(own, outputs, hidden)
            if settings.counters and settings.device == "cpu":
                found.uncounted = _uncounted(match)
            if settings.timing and not match.interpreted:
                pairs = Pairs(own, outputs, hidden, passed)
                pairs.prepare_baseline()
                pairs.time()
                if settings.device == "cpu" and found.calls:
                    pairs.compare_with_bound(bounds)
                    if settings.counters:
                        pairs.count()
                elif settings.counters:
                    found.uncounted = found.uncounted or found.untimed
            with cores.on_device():
                own.check_state()
        except DiedOnClosedPage:  # here, where no lock is held: to learn takes processes of its own
            raise own.answer_for_death() from None
        except (Ended, MemoryMistake, TaskError, InfrastructureError):
            raise
        except Exception as error:
            raise blame(error, process, found) from error
        finally:
            found.log = process.log_tail()
            cores.close_later(process)
        if settings.sanitize and settings.device == "cpu":
            look_again(match)
        if profile is not None:
            modules = tuple(built.path for built in found.builds if built.path is not None)
            places = None if unreached is None else tuple(map(tuple, unreached))
            found.gpu_counters, found.uncounted = profile(
                match.reference.task.source, candidate.source, modules, places
            )
        status: Status = "correct"
        feedback = ""
        found.stage = "correct"
    except Ended as end:
        status, feedback = end.status, shorten(end.feedback)
    except MemoryMistake as mistake:
        found.errors.append(mistake.error)
        status, feedback = "incorrect", mistake.error.message
    return found.verdict(request, settings, status, feedback, time.monotonic() - started, cores.clock.spent())


def _uncounted(match: Match) -> str:
    """Why no counters are read on a CPU, if that is known before."""
    if match.interpreted:
        return "Triton's interpreter runs the kernel, and it is the interpreter that would be counted"
    return "" if match.settings.timing else "only a kernel that is timed is counted (executor.timing=true)"


def _candidate_of(request: Request, found: Findings) -> Candidate:
    candidate = request.candidate
    assert candidate is not None, "the engine has answered what holds no kernel"
    if len(candidate.source) > MAX_SOURCE_CHARS:
        evidence = f"{len(candidate.source)} characters; at most {MAX_SOURCE_CHARS} are read"
        found.violations.append(Violation(rule="source_too_long", evidence=evidence))
        raise Ended("illegal", "The source is too long.")
    return candidate


def _needs(dialect: str, device: str) -> Needs:
    """What the process of a candidate may use."""
    if dialect == "triton" and device == "cuda":
        return "jit"
    return "operators" if dialect == "python" else "nothing"


def _read_text(
    candidate: Candidate, process: Process, settings: ExecutorSettings, cores: Cores, found: Findings
) -> list[list[int]] | None:
    """Have the text parsed and held against the static rules in the process in which it would run.

    Returns:
        Where functions stand whose bodies are left out; None: nobody has looked, since there are no rules.
    """
    question = {"do": "read", "source": candidate.source, "dialect": candidate.dialect}
    try:
        answer = cores.ask(process, question | {"static_rules": settings.static_rules}, READING_S)
    except ProcessFailure as error:
        raise broke_off(error, "while its text was read", READING_S, found, process) from None
    if "failed" in answer:  # a text that the rules themselves stumble over
        raise Ended("compile_error", f"The Python source cannot be read: {answer['message']}")
    if "unparsable" in answer:
        raise Ended("compile_error", f"The Python source does not parse: {answer['unparsable']}")
    found.stage = "parsed"
    found.violations.extend(Violation(**each) for each in answer["violations"])
    if found.violations:
        raise Ended("illegal", "Not a genuine kernel.")
    found.stage = "legal"
    unreached: list[list[int]] | None = answer["unreached"]
    return unreached
