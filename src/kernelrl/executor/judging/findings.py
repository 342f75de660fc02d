"""What the referee finds out about one candidate, and the verdict that it makes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kernelrl.executor.api import ExecutorSettings, Request
from kernelrl.executor.building.builder import Built
from kernelrl.executor.building.compilers import printable, shorten
from kernelrl.stats import median_interval
from kernelrl.verdict import (
    Build,
    Conditions,
    Construction,
    Counters,
    GpuBuild,
    GpuCounters,
    Memory,
    ParameterSource,
    Speedup,
    Spent,
    Stage,
    Status,
    TrialError,
    Verdict,
    Violation,
)

MAX_EVIDENCE_CHARS = 1000
RESOLUTION = 0.5
"""Share of the overhead below which no time is told from another."""
UNCERTAINTY = 0.3
"""Share of the overhead by which all times of one process may be off together (benchmarks/timing_honesty.py)."""
TOO_WIDE = 3.0
"""An interval that holds 1 and whose upper end is so many times the lower one tells nothing."""
BUSY_MS = 1.0
"""Asking takes so long where others keep the cores busy, and then the times of shorter calls tell little."""
UNEVEN = 0.25
"""Share of a candidate's time by which its other calls, or the mean of all, may take longer than those that count."""


@dataclass(frozen=True)
class Call:
    """Times of one pair of calls, on the same inputs (in seconds)."""

    reference: float
    candidate: float
    compiled: float | None
    first_reference: float
    """Of the first call of the same turn, on other inputs."""
    first_candidate: float
    turn: int


@dataclass
class Findings:
    """What becomes the verdict."""

    stage: Stage = "none"
    violations: list[Violation] = field(default_factory=list)
    errors: list[TrialError] = field(default_factory=list)
    trials: int = 0
    builds: list[Built] = field(default_factory=list)
    gpu_builds: list[GpuBuild] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    overheads: list[float] = field(default_factory=list)
    """Times of questions that ask nothing (in seconds)."""
    computed: list[float] = field(default_factory=list)
    """Time that the candidate's threads computed in calls like the timed ones, all together (in seconds)."""
    computed_reference: list[float] = field(default_factory=list)
    untimed: str = ""
    """Why it was not timed although that was asked for."""
    baseline: str = ""
    load: float = 0.0
    clock_mhz: float | None = None
    operators: dict[str, int] | None = None
    coverage: float | None = None
    is_profiled: bool = False
    """`coverage` is what a GPU's profiler says."""
    memory: Memory | None = None
    layers: list[str] = field(default_factory=list)
    """Of the confinement of its process, see `Verdict.layers`."""
    construction: Construction | None = None
    draws: str | None = None
    parameters: ParameterSource | None = None
    log: str = ""
    bound_s: float | None = None
    bound_by: Literal["reading", "writing", "multiplying"] | None = None
    """Time below which no program can do it (in seconds)."""
    bound_bytes: int | None = None
    counters: Counters | None = None
    gpu_counters: tuple[GpuCounters, ...] = ()
    uncounted: str = ""
    checks: list[str] = field(default_factory=list)
    """See `Verdict.checks`."""
    final: bool = True
    """False: the load on the machine may have decided something."""

    def widths(self) -> tuple[float, float]:
        """How wide the interval of the speedup is, as a share of the speedup.

        The first width comes from the scatter of the calls, and shrinks with their number; the second from an error
        that all of them may share, such as where a process lies in memory, and stays.
        """
        reference, candidate = (self._net(seconds) for seconds in (self._reference, self._candidate))
        low, high = median_interval(reference / candidate)
        shared = 2 * (self._common(reference) + self._common(candidate))
        return (high - low) / float(np.median(reference / candidate)), shared

    @property
    def candidate_s(self) -> float:
        """Time of the candidate (in seconds; median)."""
        return float(np.median(self._net(self._candidate)))

    @property
    def _reference(self) -> list[float]:
        return [call.reference for call in self.calls]

    @property
    def _candidate(self) -> list[float]:
        return [call.candidate for call in self.calls]

    @property
    def overhead(self) -> float:
        """What asking adds to every time: thawing, the way there and back, freezing (in seconds; median)."""
        return float(np.median(self.overheads))

    def _net(self, seconds: list[float]) -> NDArray[np.float64]:
        """The program's own part of times."""
        return np.maximum(np.array(seconds) - self.overhead, RESOLUTION * self.overhead)

    def _said(self, milliseconds: float) -> str:
        """A time for people: of what is below the least that is told apart, only that."""
        least = RESOLUTION * self.overhead * 1e3
        return f"{milliseconds:.3f} ms" if milliseconds > least else f"under {least:.3f} ms"

    def _common(self, net: NDArray[np.float64]) -> float:
        """Share by which all of these times may be off together."""
        return UNCERTAINTY * self.overhead / float(np.median(net))

    def _ratio(self, baseline: list[float]) -> Speedup:
        """Speedup over a baseline, timed in the same turns.

        The exact interval of the median says how far the pairs scatter, and is widened by what they have in common:
        where a process lies in memory and how it was scheduled makes all of its times a little longer or shorter.
        """
        reference, candidate = self._net(baseline), self._net(self._candidate)
        low, high = median_interval(reference / candidate)
        reference_off, candidate_off = self._common(reference), self._common(candidate)
        low, high = low * (1 - reference_off) / (1 + candidate_off), high * (1 + reference_off) / (1 - candidate_off)
        return Speedup(median=float(np.median(reference / candidate)), low=low, high=high, pairs=len(self.calls))

    def _even(self) -> Findings:
        """These findings with the mean of a call and of the first one of its turn, so that none counts for nothing."""
        calls = [
            replace(
                call,
                reference=(call.first_reference + call.reference) / 2,
                candidate=(call.first_candidate + call.candidate) / 2,
            )
            for call in self.calls
        ]
        return replace(self, calls=calls)

    @property
    def has_a_long_call(self) -> bool:
        """A call of the candidate's computed so much longer that further ones are to tell whether that comes again."""
        return self._share_beyond_median(0) > self._uneven_share >= self._share_beyond_median(1)

    @property
    def _uneven_share(self) -> float:
        """Share of the candidate's time by which calls may differ."""
        return UNEVEN + RESOLUTION * self.overhead / self.candidate_s

    def _share_beyond_median(self, longest: int) -> float:
        """Share by which a call computes more in the mean than in the median, beyond that of the reference's.

        Whoever does the work of many calls in one of them has that. What threads compute is told apart better than
        times, which all else on the machine makes longer.

        Args:
            longest: number of the longest calls that are left out.
        """
        if not self.computed or not np.median(self.computed) or not self.computed_reference:
            return 0.0
        candidate, reference = (
            np.sort(seconds)[: len(seconds) - longest] / np.median(seconds)
            for seconds in (self.computed, self.computed_reference)
        )
        return float(np.mean(candidate) - np.mean(reference))

    def _hidden_by_the_median(self) -> float:
        """Time that a call takes longer in the mean than the median says (in seconds): 0 unless two calls show it."""
        seen = self._share_beyond_median(1)
        if seen <= self._uneven_share:
            return 0.0
        return max(seen, self._share_beyond_median(0)) * self.candidate_s

    def _longer(self, seconds: float) -> Findings:
        """These findings with calls of the candidate's that all take so much longer."""
        return replace(self, calls=[replace(call, candidate=call.candidate + seconds) for call in self.calls])

    def _is_uneven(self) -> bool:
        """Whether the calls that count are cheaper than the candidate's others by more than the reference's are.

        Honest programs are slower by the same time in the first call after another process has run.
        """
        longer = []
        for _, turn in groupby(self.calls, key=lambda call: call.turn):  # one value for each: they have one first call
            calls = list(turn)
            candidate = float(np.median([call.candidate for call in calls]))
            reference = float(np.median([call.reference for call in calls]))
            longer.append(calls[0].first_candidate - candidate - calls[0].first_reference + reference)
        return median_interval(np.array(longer))[0] > self._uneven_share * self.candidate_s

    def verdict(
        self,
        request: Request,
        settings: ExecutorSettings,
        status: Status,
        feedback: str,
        seconds: float,
        spent: Spent | None = None,
    ) -> Verdict:
        """The verdict on these findings. Violations make it `illegal` whatever `status` says."""
        if self.violations:
            status = "illegal"
            feedback += " " + "; ".join(
                f"{item.rule}: {item.evidence}" + (f" (line {item.line})" if item.line else "")
                for item in self.violations[:5]
            )
        uneven = False
        conditions = speedup = speedup_compiled = reference_ms = candidate_ms = compiled_ms = None
        if self.calls:
            conditions = Conditions(
                cache=settings.cpu_cache,
                load=self.load,
                clock_mhz=self.clock_mhz,
                overhead_ms=self.overhead * 1e3,
            )
        if status == "correct" and self.calls:
            counted = self
            if hidden_s := self._hidden_by_the_median():
                uneven, counted = True, self._longer(hidden_s)
            if self._is_uneven():
                uneven = True
                counted = min(counted, self._even(), key=lambda found: found._ratio(found._reference).median)
            speedup = counted._ratio(counted._reference)
            reference_ms = float(np.median(self._net(counted._reference))) * 1e3
            candidate_ms = float(np.median(self._net(counted._candidate))) * 1e3
            times = f"{self._said(candidate_ms)} against {self._said(reference_ms)}"
            feedback = f"Correct. {times}: {speedup.median:.2f}x ({speedup.low:.2f}–{speedup.high:.2f})."
            asking_ms = self.overhead * 1e3
            if speedup.low < 1 < speedup.high and speedup.high > TOO_WIDE * speedup.low:
                why = f"calls are short beside what asking takes ({asking_ms:.3f} ms)"
                if min(candidate_ms, reference_ms) > asking_ms:
                    why = f"the machine is busy (load {self.load:.1f}), and the ratio is that of neighbouring calls"
                feedback += f" Too wide to tell: {why}."
            elif BUSY_MS <= asking_ms > min(candidate_ms, reference_ms):
                feedback += (
                    f" Others keep the cores busy (asking takes {asking_ms:.1f} ms): it may be faster than that."
                )
            if uneven:
                feedback += " Its calls take unequal times; all of them count."
            compiled = [call.compiled for call in self.calls if call.compiled is not None]
            if compiled:
                compiled_ms = float(np.median(self._net(compiled))) * 1e3
                speedup_compiled = counted._ratio(compiled)
                feedback += f" Against torch.compile ({settings.compile_baseline}): {speedup_compiled.median:.2f}x."
        elif status == "correct":
            feedback = f"Correct. Not timed: {self.untimed}." if self.untimed else "Correct. Not timed."
        build = None
        if self.builds:
            build = Build(
                ok=all(built.ok for built in self.builds),
                seconds=sum(built.seconds for built in self.builds),
                cached=all(built.cached for built in self.builds),
                units=len(self.builds),
                keys=tuple(built.key for built in self.builds if built.key),
                loops=self.builds[0].loops if len(self.builds) == 1 else (),
                log=shorten("\n".join(built.log for built in self.builds).strip()),
            )
        return Verdict(
            task_id=request.task.id,
            candidate=request.candidate.digest if request.candidate else None,
            status=status,
            final=self.final,
            stage=self.stage,
            dialect=request.dialect,
            device=settings.device,
            violations=tuple(
                each.model_copy(update={"evidence": shorten(each.evidence, MAX_EVIDENCE_CHARS)})
                for each in self.violations
            ),
            errors=tuple(self.errors),
            trials=self.trials,
            reference_ms=reference_ms,
            candidate_ms=candidate_ms,
            speedup=speedup,
            bound_ms=None if self.bound_s is None else self.bound_s * 1e3,
            bound_by=self.bound_by,
            bound_bytes=self.bound_bytes,
            uneven=uneven,
            draws=self.draws,
            compiled_ms=compiled_ms,
            compile_mode=None if compiled_ms is None else settings.compile_baseline,
            speedup_compiled=speedup_compiled,
            baseline=shorten(self.baseline),
            conditions=conditions,
            coverage=self.coverage,
            memory=self.memory,
            counters=self.counters,
            gpu_counters=self.gpu_counters,
            uncounted=self.uncounted,
            construction=self.construction,
            parameters=self.parameters,
            operators=self.operators,
            layers=tuple(self.layers),
            checks=tuple(self.checks),
            build=build,
            gpu_builds=tuple(self.gpu_builds),
            feedback=shorten(feedback.strip()),
            log=printable(self.log),
            protocol=settings.protocol,
            interpreted=request.dialect == "triton" and settings.device == "cpu" and self.trials > 0,
            seconds=seconds,
            spent=spent,
        )
