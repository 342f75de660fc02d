"""The checked calls of a candidate: fresh inputs, hidden ones, and a record of the library's operators."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from kernelrl.executor.api import Distribution
from kernelrl.executor.contest.distributions import RARE
from kernelrl.executor.contest.launches import MAX_LAUNCHES
from kernelrl.executor.judging.arena import AS_MADE, Case, Draw
from kernelrl.executor.judging.candidate_process import CandidateProcess
from kernelrl.executor.judging.endings import Ended
from kernelrl.executor.judging.hidden_parameters import HiddenParameters
from kernelrl.executor.judging.outputs import Outputs
from kernelrl.executor.legality.operators import launch_nothing, library_operators
from kernelrl.executor.processes.failures import ProcessFailure
from kernelrl.executor.processes.process import nothing
from kernelrl.verdict import GpuBuild, Memory, Violation

MAX_ASKED_AGAIN = 6
"""Calls in turn whose outputs lie in memory that was not filled before: honest ones have one or two."""
MAX_ITEMS = 16
"""Elements that one call may fetch from tensors one by one: beyond that, Python does the kernel's work."""
TF32 = " On a GPU tl.dot rounds float32 to 10 bits (TF32) first, unless it is asked for input_precision='ieee'."
AUTOTUNED = (
    " Any config of triton.autotune may serve a call, after another one has run: each must be right, and what a kernel"
    " adds to must be named in reset_to_zero."
)
MOST_OPERATORS = 1 << 31
"""More of one operator no call makes."""


@dataclass(frozen=True)
class Passed:
    """What the checked calls tell those who time further ones."""

    slowest_s: float
    distributions: list[Distribution]
    """Hidden ones that say something about this task."""


def run_trials(own: CandidateProcess, outputs: Outputs, hidden: HiddenParameters) -> Passed:
    """Check outputs on fresh inputs, with a record of the library operators that run.

    The values of one call are compared while the next one runs.
    """
    match, found = own.match, own.found
    measures_memory = own.settings.device == "cpu" and match.dialect != "triton"
    distributions: list[Distribution] = []
    slowest_s = 0.0
    found.draws = own.reference.seeds.name_of_draws
    hidden.find()
    with own.cores.holding(own.reference.lock), own.cores.making_reference():
        draws = own.reference.checked_draws(hidden.packed)
        reference_peak = own.reference.peak_memory() if measures_memory else None
        timed = own.settings.timing and not match.interpreted
        if not own.reference.changes_inputs:
            drawn = dict.fromkeys(draw.distribution for draw in draws)
            distributions = [name for name in drawn if name != "task" and name not in RARE]  # those come anyway
        hidden.last = own.reference.timed_parameters(hidden.packed) if timed else draws[-1].parameters
    compare_values, is_prepared = nothing, False
    remaining, asked_again = deque(draws), 0
    while remaining:
        case = _case_of(own, remaining[0])
        hidden.take(case.draw.parameters, case)
        profiled = _is_to_be_profiled(own)
        if profiled and not is_prepared:
            is_prepared = True
            _prepare_profile(own)
        running = own.cores.stopwatch()
        reply = own.call(case, {"do": "run", "recorded": True, "profiled": profiled}, compare_values)
        slowest_s = max(slowest_s, running())
        if found.memory is None and reference_peak is not None:
            peak = own.memory.num_bytes(case.image.numel())
            found.memory = Memory(candidate_mb=peak / 2**20, reference_mb=reference_peak / 2**20)
        compare_values = outputs.examine(reply, case)
        asked_again = asked_again + 1 if outputs.unfilled else 0
        if asked_again > MAX_ASKED_AGAIN:
            raise own.violation("output_reused", "all calls take their outputs from memory where they find zeros")
        if not outputs.unfilled:
            remaining.popleft()
        judge_operators(own, reply)
        if found.stage == "compiled":
            _assemble(own, reply)
        found.stage = "ran"
    compare_values()
    if found.errors:
        first = found.errors[0]
        if first.inputs == AS_MADE:
            where = ", with parameters as the task makes them"
        else:
            where = "" if first.inputs == "task" else f" on hidden inputs ({first.inputs})"
            where += ", with hidden parameters" if found.parameters in ("keyed", "by_name") else ""
        num_wrong = len({error.trial for error in found.errors})
        said = f"Wrong output in {num_wrong} of {found.trials} trials: {first.message}{where}."
        said += TF32 if may_use_tf32(match.candidate.source, own.settings.device) else ""
        may_be_tuning = match.interpreted and "autotune(" in match.candidate.source and num_wrong < found.trials
        raise Ended("incorrect", said + (AUTOTUNED if may_be_tuning else ""))
    return Passed(slowest_s, distributions)


def _case_of(own: CandidateProcess, draw: Draw) -> Case:
    """The case of a draw, which is made again where there is no room to keep all."""
    if (case := own.reference.kept_case(draw)) is not None:
        return case
    with own.cores.holding(own.reference.lock), own.cores.making_reference():
        return own.reference.checked_case(draw)


def may_use_tf32(source: str, device: str) -> bool:
    """Whether a kernel may multiply float32 less exactly than it says, as Triton does unless it is told."""
    return device == "cuda" and "tl.dot(" in source and "ieee" not in source and "allow_tf32=False" not in source


def _is_to_be_profiled(own: CandidateProcess) -> bool:
    """Whether the operators of its calls so far leave open which share of the device's time is the candidate's own."""
    found = own.found
    is_open = found.operators is not None and found.coverage is None
    return is_open and own.settings.device == "cuda" and own.match.must_do_the_work


def _prepare_profile(own: CandidateProcess) -> None:
    """Have the process prepare its profiler, which takes seconds that are no time of a call's. It keeps the device:
    its text is loaded, and may use it."""
    try:
        own.ask({"do": "prepare_profile"})
    except ProcessFailure as error:
        raise own.broke_off(error, "while its profile was prepared") from None


def _assemble(own: CandidateProcess, reply: dict[str, Any]) -> None:
    """Compile the Triton kernels that the interpreter has just run for a named GPU."""
    arch, launches = own.settings.gpu_arch, reply.get("launches")
    if arch is None or not own.match.interpreted or not isinstance(launches, list) or not launches:
        return
    if len(launches) > MAX_LAUNCHES:
        raise own.violation("forged_message", f"a record of {len(launches)} launches; at most {MAX_LAUNCHES} are made")
    try:
        own.found.gpu_builds = [
            GpuBuild(**each) for each in own.match.builder.assemble(own.match.candidate.source, launches, arch)
        ]
    except (ValueError, TypeError, KeyError) as error:
        raise own.violation("forged_message", f"a record of launches that is none: {error!s:.100}") from None
    for built in own.found.gpu_builds:
        if not built.ok:
            own.found.stage = "legal"
            raise Ended("compile_error", f"{built.kernel} does not compile for {arch}:\n{built.log}")


def judge_operators(own: CandidateProcess, reply: dict[str, Any]) -> None:
    """Hold the record of operators of one call against the rules."""
    found = own.found
    operators, share = reply.get("operators"), reply.get("library_share")
    if not (
        isinstance(operators, dict)
        and all(isinstance(count, int) and 0 < count < MOST_OPERATORS for count in operators.values())
        and (share is None or isinstance(share, float))
    ):
        raise own.violation("forged_message", "an answer without the record of operators")
    if found.operators is None:
        found.operators = {str(name)[:100]: int(count) for name, count in list(operators.items())[:100]}
        if own.settings.device == "cuda" and own.match.must_do_the_work:
            found.coverage = 1.0
    if own.settings.device == "cuda":  # elsewhere nobody has asked for a share
        if share is not None:
            found.coverage, found.is_profiled = min(1.0, max(0.0, 1.0 - share)), True
        elif not found.is_profiled and not launch_nothing(operators):
            found.coverage = None
    if own.match.must_do_the_work:
        computing = [f"{name!s:.100} ran {operators[name]}x" for name in library_operators(operators)]
        if operators.get("aten::_local_scalar_dense", 0) > MAX_ITEMS:
            computing.append(
                f"more than {MAX_ITEMS} numbers reached Python in a call (by item(), int(), results of a function or "
                "shapes that it changes): the kernel computes with so many"
            )
        found.violations += [Violation(rule="library_operator", evidence=each) for each in computing[:20]]
    if found.violations:
        raise Ended("illegal", "PyTorch's operators did the work of the kernel.")
