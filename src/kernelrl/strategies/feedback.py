"""Feedback: a verdict as a policy reads it before its next attempt.

It says what is wrong and where, and how far a right kernel is from what can be reached. It shows of one wrong element
the index and the magnitudes, never more of the reference's values: a policy that is told outputs learns to print them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from kernelrl.syntax import parse
from kernelrl.verdict import Counters, GpuCounters, Loop, TrialError, Verdict

Amount = Literal["status", "errors", "times", "profile"]
AMOUNTS: tuple[Amount, ...] = ("status", "errors", "times", "profile")
_BUILD_ERROR = re.compile(
    r"^[^:(\n]+(?::(?P<line>\d+)(?::\d+)?|\((?P<nvcc>\d+)\)): (?:fatal )?error: (?P<text>.+)$", re.MULTILINE
)
_VALUES = re.compile(r"at (?P<index>\[[\d, ]*\]) expected (?P<expected>\S+), got (?P<got>\S+)$")
_STATUS = {
    "correct": "The kernel is correct.",
    "incorrect": "The kernel runs, and its output is wrong.",
    "illegal": "This is not a genuine kernel.",
    "compile_error": "The kernel does not compile.",
    "runtime_error": "The kernel fails while it runs.",
    "timeout": "The kernel takes too long.",
    "killed": "The kernel's process was killed.",
    "not_run": "The kernel was compiled, and not run.",
    "infrastructure": "The kernel could not be judged.",
}
LINE_BYTES = 64
"""What one miss of a cache brings (in bytes)."""
SLOW, MANY_MISSES = 1.0, 5.0
"""Instructions a cycle below which, and misses in a thousand instructions from which, a kernel may be waiting for
memory."""
_BOUND_BY = {
    "reading": "reading its inputs",
    "writing": "writing its outputs",
    "multiplying": "multiplying its matrices",
}


class Feedback(BaseModel):
    """How much of a verdict a policy is told."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    amount: Amount = "profile"
    """`status`: what became of it; `errors`: and the first error, with its place; `times`: and how fast it is, against
    the reference and the machine's limit; `profile`: and where time, memory and registers went, and what hardware
    counted."""
    max_chars: int = Field(default=2000, ge=100)
    """Length at which the text is cut off."""

    def __call__(self, verdict: Verdict, source: str | None) -> str:
        """The feedback on a kernel.

        Args:
            source: of the kernel; None: the completion held none.
        """
        level = AMOUNTS.index(self.amount)
        lines = [_STATUS[verdict.status] if source is not None else "The answer holds no complete kernel."]
        if level >= 1:
            lines += _errors(verdict, source)
        if level >= 2:
            lines += _times(verdict)
        if level >= 3:
            lines += _profile(verdict)
        text = "\n".join(lines)
        return text if len(text) <= self.max_chars else f"{text[: self.max_chars]} …"


def _errors(verdict: Verdict, source: str | None) -> list[str]:
    if verdict.violations:
        first = verdict.violations[0]
        where = f" (line {first.line})" if first.line else ""
        return [f"It breaks the rule `{first.rule}`{where}: {first.evidence}"]
    if verdict.status == "compile_error":
        return [_build_error(verdict, source)]
    if verdict.errors:
        return _wrong_outputs(verdict.errors, verdict.trials)
    if verdict.correct:
        return []
    return [verdict.feedback, *_last_line(verdict.log)]


def _build_error(verdict: Verdict, source: str | None) -> str:
    """The first error of the compiler, and the line that it is about."""
    logs = [verdict.build.log if verdict.build else "", *(each.log for each in verdict.gpu_builds if not each.ok)]
    found = next((match for log in logs if (match := _BUILD_ERROR.search(log))), None)
    if found is None:
        return verdict.feedback
    number = int(found["line"] or found["nvcc"])
    quoted = _native_line(source or "", number)
    return f"The first error is on line {number} of the source that is compiled: {found['text']}" + (
        f"\n    {quoted}" if quoted else ""
    )


def _native_line(source: str, number: int) -> str:
    """A line of the only long text in a kernel's source, which is what the compiler reads; empty: not known."""
    try:
        tree = parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    native = [lines for text in texts if len(lines := text.split("\n")) >= max(number, 3)]
    return native[0][number - 1].strip() if len(native) == 1 else ""


def _wrong_outputs(errors: Sequence[TrialError], trials: int) -> list[str]:
    """The first trial that failed, and on which kinds of inputs trials failed."""
    first = errors[0]
    wrong = len({error.trial for error in errors})
    lines = [f"It fails in {wrong} of {trials} trials. {_wrong_element(first)}"]
    if first.max_rel is not None and first.kind == "mismatch":
        lines[0] += f" (largest relative error {first.max_rel:.1g})"
    hidden = list(dict.fromkeys(error.inputs for error in errors if error.inputs != "task"))
    if hidden and all(error.inputs != "task" for error in errors):
        lines.append(f"The task's own inputs are right; these kinds of hidden inputs are not: {', '.join(hidden)}.")
    elif hidden:
        lines.append(f"These kinds of hidden inputs are wrong too: {', '.join(hidden)}.")
    return lines


def _wrong_element(error: TrialError) -> str:
    found = _VALUES.search(error.message)
    if found is None:
        return f"{error.message}."
    share = f"{error.mismatched:.1%} of the elements are wrong" if error.mismatched is not None else "Wrong"
    magnitudes = f"expected a value of about {float(found['expected']):.1g}, got about {float(found['got']):.1g}"
    return f"{share}; the first at {found['index']}: {magnitudes}."


def _last_line(log: str) -> list[str]:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return [f"It printed: {lines[-1]}"] if lines else []


def _times(verdict: Verdict) -> list[str]:
    if verdict.speedup is None or verdict.candidate_ms is None or verdict.reference_ms is None:
        return ["It was not timed."] if verdict.correct else []
    speedup = verdict.speedup
    lines = [
        f"It takes {verdict.candidate_ms:.3g} ms, the reference {verdict.reference_ms:.3g} ms: a speedup of "
        f"{speedup.median:.2f} (between {speedup.low:.2f} and {speedup.high:.2f})."
    ]
    if verdict.speedup_compiled is not None:
        lines.append(f"Against torch.compile the speedup is {verdict.speedup_compiled.median:.2f}.")
    if verdict.bound_ms is not None:
        work = f", which {_BOUND_BY[verdict.bound_by]} takes" if verdict.bound_by else ""
        lines.append(
            f"No program can take less than {verdict.bound_ms:.3g} ms on this machine{work}: "
            f"it is {verdict.candidate_ms / verdict.bound_ms:.3g} times as slow as that."
        )
    return lines


def _profile(verdict: Verdict) -> list[str]:
    lines = []
    if verdict.coverage is not None and verdict.coverage < 1:
        lines.append(f"Its own kernels do {verdict.coverage:.0%} of the work.")
    if verdict.operators:
        calls = ", ".join(f"{name} {count}×" for name, count in sorted(verdict.operators.items()))
        lines.append(f"Library operators in one call: {calls}.")
    if verdict.correct and verdict.memory is not None:
        lines.append(
            f"Peak memory: {verdict.memory.candidate_mb:.3g} MiB, "
            f"the reference's {verdict.memory.reference_mb:.3g} MiB."
        )
    if verdict.correct and verdict.counters is not None:
        lines += _counted(verdict.counters, verdict.bound_bytes)
    if verdict.correct and verdict.build is not None:
        lines += _loops(verdict.build.loops)
    lines += [_counted_on_gpu(counters) for counters in verdict.gpu_counters]
    for build in verdict.gpu_builds:
        if build.ok:
            lines.append(
                f"{build.kernel} for {build.arch}: {build.registers} registers a thread, {build.shared_bytes} bytes of "
                f"shared memory, {build.spill_bytes} bytes spilled."
            )
    return lines


def _counted(counters: Counters, bound_bytes: int | None) -> list[str]:
    """What the processor counted in one call, and what the kernel of the machine had to do for it."""
    hardware, rest = [], []
    a_cycle, misses = None, counters.cache_misses
    if counters.cycles and counters.instructions:
        a_cycle = counters.instructions / counters.cycles
        hardware.append(f"{a_cycle:.2g} instructions a cycle")
    if counters.cache_references and misses is not None:
        needed = "" if bound_bytes is None else f"; the task needs {bound_bytes / 1e6:.3g} MB of memory"
        share, brought = misses / counters.cache_references, LINE_BYTES * misses / 1e6
        many = counters.instructions is not None and 1000 * misses >= MANY_MISSES * counters.instructions
        waits = ", so it may be waiting for memory" if many and a_cycle is not None and a_cycle < SLOW else ""
        hardware.append(
            f"{share:.0%} of its accesses to the outer cache (of AMD's the second level) miss "
            f"({brought:.3g} MB brought into it{needed}){waits}"
        )
    if counters.branches and counters.branch_misses is not None:
        hardware.append(f"{counters.branch_misses / counters.branches:.1%} of its branches are mispredicted")
    for name, count in (("page faults", counters.page_faults), ("context switches", counters.context_switches)):
        if count:
            rest.append(f"{count:.0f} {name}")
    if counters.cpu_ms:
        rest.append(f"{counters.cpu_ms:.3g} ms of computing in all threads together")
    lines = [f"Counted: {'; '.join(hardware)}."] if hardware else []
    return [*lines, *([f"One call costs {', '.join(rest)}."] if rest else [])]


def _counted_on_gpu(counters: GpuCounters) -> str:
    """What Nsight Compute counted in one kernel."""
    times = "" if counters.launches == 1 else f" ({counters.launches} launches)"
    said = [f"{counters.microseconds:.3g} µs"] if counters.microseconds is not None else []
    for name, share in (("the device's memory", counters.dram), ("its multiprocessors", counters.compute)):
        if share is not None:
            said.append(f"{name} at {share:.0%} of the peak")
    for name, num_bytes in (("read", counters.read_bytes), ("written", counters.written_bytes)):
        if num_bytes is not None:
            said.append(f"{num_bytes / 1e6:.3g} MB {name}")
    if counters.occupancy is not None:
        said.append(f"{counters.occupancy:.0%} of the warps active")
    if counters.stalled_by is not None:
        said.append(f"they wait most for {counters.stalled_by}")
    return f"{counters.kernel}{times}: {', '.join(said)}."


def _loops(loops: Sequence[Loop]) -> list[str]:
    """Which loops the compiler has vectorised, by the line of the source that is compiled, and why not the others."""
    lines = []
    if vectorised := [f"line {loop.line} ({loop.vector_bytes} bytes)" for loop in loops if loop.vector_bytes]:
        lines.append(f"The compiler vectorised the loops at {', '.join(vectorised)} of the C++.")
    for loop in loops:
        if not loop.vector_bytes:
            why = f": {loop.reason}" if loop.reason else ""
            lines.append(f"It did not vectorise the loop at line {loop.line}{why}.")
    return lines
