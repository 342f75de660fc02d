"""The timing of a candidate: pairs of calls, the reference's and its own in turn."""

from __future__ import annotations

import os
import random
import secrets
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kernelrl.executor import machine
from kernelrl.executor.contest.distributions import BOUNDARY
from kernelrl.executor.judging.arena import Case, repeat
from kernelrl.executor.judging.bound import Bounds, too_fast
from kernelrl.executor.judging.candidate_process import CandidateProcess
from kernelrl.executor.judging.endings import Ended
from kernelrl.executor.judging.findings import Call
from kernelrl.executor.judging.hidden_parameters import HiddenParameters
from kernelrl.executor.judging.outputs import Outputs
from kernelrl.executor.judging.retest import IMPLAUSIBLE
from kernelrl.executor.judging.tally import NUM_COUNTED, Tally
from kernelrl.executor.judging.timing import time_call
from kernelrl.executor.judging.trials import Passed, judge_operators
from kernelrl.executor.processes.failures import ProcessFailure
from kernelrl.executor.processes.process import nothing
from kernelrl.executor.processes.standing import computing

RECORDED_ONE_IN = 4
"""Share of turns in which a call is recorded, chosen at random."""
NUM_RARE = 7
"""Further calls on inputs that hold something rare now and then, if those of the task's that the reference bears do:
of what shows in one of ten calls, the pairs alone are too few."""
AGAIN_ONE_IN = 8
"""Share of hidden distributions that come again with further pairs."""
MORE_PAIRS, MOST_PAIRS = 4, 16
"""Pairs that are added at a time when the first ones leave the interval too wide, and those timed at once at most."""
NUM_NULLS, NUM_NULLS_AGAIN = 7, 2
"""Questions that ask nothing before the first pairs, and before further ones."""
MOST_OF_A_TURN = 3
"""Calls of each program that count in a turn, after one that does not: one to so many, at random."""
MAX_UNFILLED = 2
"""Timed calls whose outputs lie in memory that was not filled before: the candidate's memory has settled by then."""
SLOWER_WHEN_TIMED, TIMED_S = 4.0, 1.0
"""A timed call has so many times what the slowest checked one took, or so long (in seconds) where that is more. So long
has a question that asks nothing."""
MOST_ALONE_S, SLOWER_ALONE = 60.0, 20.0
"""All calls of a candidate for which all else stands still have so long (in seconds), and so many times what the
reference's take."""


@dataclass(eq=False)
class Turn:
    """Inputs of the calls of one turn."""

    row: list[Callable[[], Case]]
    """Of the reference's and the candidate's; the first call brings a program to the state of the others, which
    count."""
    alike: list[Callable[[], Case]] = field(default_factory=list)
    """Of further calls of the candidate, on inputs of the same kind, of which only what they compute counts."""
    untimed: list[tuple[Callable[[], Case | None], bool]] = field(default_factory=list)
    """Of those behind the turn, when others may have the cores, if the reference bears them, and whether the operators
    of a call are recorded."""


@dataclass(eq=False)
class Drawn:
    """A turn whose inputs have been drawn, but for those behind it."""

    row: list[Case]
    alike: list[Case]
    turn: Turn


class Pairs:
    """Times one candidate that has passed its trials.

    Args:
        own: the candidate's process.
        outputs: of its calls.
        hidden: its parameters.
        passed: what the trials have shown.
    """

    def __init__(self, own: CandidateProcess, outputs: Outputs, hidden: HiddenParameters, passed: Passed):
        self._own = own
        self._outputs = outputs
        self._hidden = hidden
        self._passed = passed
        self._reference, self._found, self._cores = own.reference, own.found, own.cores
        self._settings = own.settings
        self._num_unfilled = 0
        self._alone_s = self._reference_s = 0.0
        self._drawn = own.settings.trials  # draws that it has met
        self._drawn_hidden = Counter[str]()  # the same for all candidates of a task

    def prepare_baseline(self) -> None:
        """Compile the reference, where that is asked for, while others may still run."""
        cores = self._cores
        if self._settings.compile_baseline:
            with cores.preparing(), cores.on_device(), cores.holding(self._reference.lock), cores.making_reference():
                compiled = self._reference.compiled()
            self._found.baseline = compiled if isinstance(compiled, str) else ""

    def time(self) -> None:
        """Time reference and candidate in turn on unseen inputs until the interval is narrow or the budget is spent.

        Inputs are drawn before the cores are stopped for this candidate, and outputs compared after that. Between two
        turns others may have the cores. Where there is no room for all inputs, those of a turn are drawn before it.
        """
        settings, found, cores = self._settings, self._found, self._cores
        latest_s = cores.clock.timed + settings.timing_budget_s
        found.load, found.clock_mhz = os.getloadavg()[0], machine.clock_mhz()
        num_pairs = min(settings.min_pairs, MOST_PAIRS)
        while num_pairs:
            turns = self._plan_turns(num_pairs)
            drawn = self._draw(turns)
            if not found.calls and repeat([case for each in drawn for case in each.row]):
                found.untimed = "the task's inputs repeat from call to call, so a kernel could keep its outputs"
                return
            first = drawn[0].row[0]
            with cores.preparing(), cores.on_device():
                self._hidden.take(first.draw.parameters, first)
            num_nulls = NUM_NULLS_AGAIN if found.calls else NUM_NULLS
            while drawn or turns:
                drawn = drawn or self._draw(turns)
                each = drawn.pop(0)
                with cores.on_device(), cores.holding(self._reference.lock):
                    with cores.making_reference():
                        process = self._reference.timed.prepare(first)
                    with cores.measuring(process, self._own.process):
                        if each.row[0] is first:
                            self._time_nothing(num_nulls)
                        checks = self._time_turn(each)
                self._compare(checks)
                self._call_untimed(each.turn)
            if (missing := settings.min_pairs - len(found.calls)) > 0:
                num_pairs = min(missing, MOST_PAIRS)
                continue
            scatter, common = found.widths()
            is_open = scatter >= max(settings.target_width, common) or found.has_a_long_call
            goes_on = is_open and cores.clock.timed < latest_s
            num_pairs = min(MORE_PAIRS, settings.max_pairs - len(found.calls)) if goes_on else 0

    def count(self) -> None:
        """Count what the processor does in further calls, which are as the timed ones are to the candidate, questions
        that ask nothing before them and none among them, and checked like these. Nothing of it is timed."""
        cores, process = self._cores, self._own.process
        with cores.preparing(), cores.holding(self._reference.lock), cores.making_reference():
            cases = [self._plan()() for _ in range(NUM_COUNTED)]
        with cores.preparing():
            self._hidden.take(cases[0].draw.parameters, cases[0])
        tally, checks = Tally(process.pid), []
        with cores.measuring(process):
            for _ in range(NUM_NULLS):
                with tally.nothing():
                    self._ask_nothing()
            for case in cases:
                reply, _ = self._time_call(case, around=tally.call())
                checks.append(self._examine_timed(reply, case))
        self._compare(checks)
        self._found.counters, self._found.uncounted = tally.counters(), tally.uncounted

    def _compare(self, checks: Sequence[Callable[[], None]]) -> None:
        """Compare the outputs of calls, once the cores are free again."""
        with self._cores.preparing(), self._cores.on_device():
            for check in checks:
                check()
        self._raise_errors()

    def _raise_errors(self) -> None:
        """End the judgement if a call has gone wrong."""
        if self._found.errors:
            error = self._found.errors[0]
            where = "" if error.inputs == "task" else f" on hidden inputs ({error.inputs})"
            raise Ended("incorrect", f"Wrong output in a timed run{where}: {error.message}.")

    def compare_with_bound(self, bounds: Bounds) -> None:
        """What is faster than this machine allows has not done the work, whatever it is that it has done."""
        found = self._found
        bound_s, work, num_bytes = bounds.of(self._reference)
        found.bound_s, found.bound_by, found.bound_bytes = bound_s, work, num_bytes
        if too_fast(found.candidate_s, bound_s):
            evidence = f"{found.candidate_s * 1e3:.3g} ms, where {work} alone takes {bound_s * 1e3:.3g} ms here"
            raise self._own.violation(IMPLAUSIBLE, evidence)

    def _draw(self, turns: list[Turn]) -> list[Drawn]:
        """Draw the inputs of these turns, and leave those for which there is no room; before the first pair two fit."""
        cores, reference = self._cores, self._reference
        with cores.preparing(), cores.on_device(), cores.holding(reference.lock), cores.making_reference():
            all_fit = reference.has_room_for(sum(len(turn.row) + len(turn.alike) for turn in turns))
            number = len(turns) if all_fit else 1 if self._found.calls else 2
            now, turns[:] = turns[:number], turns[number:]
            return [Drawn([make() for make in turn.row], [make() for make in turn.alike], turn) for turn in now]

    def _plan_turns(self, num_pairs: int) -> list[Turn]:
        """Turns with so many pairs, and the further calls of the candidate among them, where nobody expects them."""
        turns = [Turn(row) for row in self._plan_rows(num_pairs)]
        recorded = [] if self._found.calls else [secrets.choice(turns)]
        recorded += [turn for turn in turns if turn not in recorded and secrets.randbelow(RECORDED_ONE_IN) == 0]
        further = self._plan_rare()  # which are recorded as well as others
        for turn in recorded:
            turn.untimed.append((further.pop() if further else self._plan(), True))
        for make in self._plan_hidden():
            secrets.choice(turns).untimed.append((make, False))
        for each in further:
            secrets.choice(turns).alike.append(each)
        return turns

    def _plan_rows(self, num_pairs: int) -> list[list[Callable[[], Case]]]:
        """Fresh inputs for the calls of some turns: of each the first call does not count.

        Before the first pairs comes a turn with that call alone.
        """
        rows = [] if self._found.calls else [[self._plan()]]
        while num_pairs:
            counted = min(num_pairs, 1 + secrets.randbelow(MOST_OF_A_TURN))
            rows.append([self._plan() for _ in range(1 + counted)])
            num_pairs -= counted
        return rows

    def _plan_hidden(self) -> list[Callable[[], Case | None]]:
        """Further calls among the timed ones, on hidden inputs: a candidate that knows when it is timed must be right
        on them then, too. All distributions come once (of a boundary both sides), and each now and then again."""
        again, packed = bool(self._found.calls), self._hidden.packed
        planned: list[Callable[[], Case | None]] = []
        for name in self._passed.distributions:
            if again and secrets.randbelow(AGAIN_ONE_IN):
                continue
            for _ in range(2 if name == BOUNDARY else 1):
                planned.append(partial(self._reference.hidden_case, self._drawn_hidden[name], name, packed))
                self._drawn_hidden[name] += 1
        return planned

    def _plan_rare(self) -> list[Callable[[], Case]]:
        """Further calls like the timed ones, which take no time of the reference's."""
        is_first = not self._found.calls
        return [self._plan() for _ in range(NUM_RARE if is_first and self._reference.bears_rare else 0)]

    def _plan(self) -> Callable[[], Case]:
        self._drawn += 1
        return partial(self._reference.timed_case, self._drawn - 1, self._hidden.packed)

    def _time_nothing(self, num_nulls: int) -> None:
        """Time questions that ask nothing."""
        reference = self._reference.timed
        for _ in range(num_nulls):
            self._ask_nothing()
        reference.time_nothing()  # which takes longer by whatever the candidate has left of the caches
        self._found.overheads += [reference.time_nothing() for _ in range(num_nulls)]

    def _time_turn(self, turn: Drawn) -> list[Callable[[], None]]:
        """Time the calls of one turn: the reference's and the candidate's, in either order.

        Whoever is first comes behind what others have run meanwhile, and finds the processor in another state.

        Returns:
            What is left to do: the comparisons of all outputs.
        """
        found, row, checks = self._found, turn.row, list[Callable[[], None]]()
        candidate_s, reference_s = list[float](), list[float]()

        def time_reference() -> None:
            reference_s.extend(self._time_reference(row))

        def time_candidate() -> None:
            for case in row:
                reply, seconds = self._time_call(case, self._computing(found.computed, len(row) > 1))
                candidate_s.append(seconds)
                checks.append(self._examine_timed(reply, case))
            for case in turn.alike:
                reply, _ = self._time_call(case, self._computing(found.computed))
                checks.append(self._examine_timed(reply, case))

        for time_one in random.SystemRandom().sample([time_reference, time_candidate], 2):
            time_one()
        compiled_s = self._time_compiled(row, reference_s)
        self._cores.clock.calls += sum(reference_s) + sum(candidate_s)
        first = reference_s[0], candidate_s[0]
        counted = zip(reference_s[1:], candidate_s[1:], compiled_s[1:], strict=True)
        number = found.calls[-1].turn + 1 if found.calls else 0
        found.calls += [Call(*seconds, *first, number) for seconds in counted]
        return checks

    def _time_reference(self, row: list[Case]) -> list[float]:
        reference, seconds = self._reference.timed, list[float]()
        for case in row:
            around = self._computing(self._found.computed_reference, len(row) > 1, reference.pid)
            seconds.append(reference.time(case, around))
        self._reference_s += sum(seconds)
        return seconds

    def _time_compiled(self, row: list[Case], reference_s: list[float]) -> Sequence[float | None]:
        """The same of the compiled reference; it has clocks, without which nothing compiles."""
        compiled = self._reference.compiled() if self._settings.compile_baseline else ""
        if isinstance(compiled, str) or len(row) == 1:
            return [None] * len(row)
        confined = self._reference.timed.cost_of_confinement(row, reference_s)
        return [compiled.time(case) * confined for case in row]

    def _call_untimed(self, turn: Turn) -> None:
        """Make further calls of the candidate behind those of a turn: what pauses before one shows in its first call.

        One that leaves its work to the library, or what is rare undone, when nobody looks must guess when.
        """
        own, checks = self._own, []
        with self._cores.preparing(), self._cores.on_device():
            for make, recorded in turn.untimed:
                with self._cores.holding(self._reference.lock), self._cores.making_reference():
                    case = make()
                if case is None:
                    continue
                reply = own.call(case, {"do": "run", "recorded": recorded}, nothing, self._timed_limit_s)
                checks.append(self._examine_timed(reply, case))
                if recorded:
                    judge_operators(own, reply)
        self._compare(checks)

    @property
    def _timed_limit_s(self) -> float:
        """What a question may take for which all else stands still (in seconds)."""
        return min(max(TIMED_S, SLOWER_WHEN_TIMED * self._passed.slowest_s), self._settings.run_timeout_s)

    def _computing(
        self, found: list[float], counts: bool = True, pid: int | None = None
    ) -> AbstractContextManager[object]:
        """Add how long a process computes in a call that counts: the candidate's, unless another one is named.

        What it does once in its life, in the turn that begins, does not count; nor would the host's part on a GPU.
        """
        on_cpu = self._settings.device == "cpu"
        return computing(pid or self._own.process.pid, found) if counts and on_cpu else nullcontext()

    def _ask_nothing(self) -> None:
        """Bring it to the state of the reference, which is timed with nothing to do."""
        limit_s = min(TIMED_S, self._settings.run_timeout_s)
        try:
            self._own.arena.note_spans(self._own.process.ask({"do": "null"}, limit_s, alone=True)[0])
        except ProcessFailure as error:
            raise self._broke_off_when_timed(error) from None

    def _broke_off_when_timed(self, error: ProcessFailure) -> Exception:
        when = f"while it was timed (its checked calls took up to {self._passed.slowest_s:.2g} s)"
        return self._own.broke_off(error, when, self._timed_limit_s)

    def _time_call(
        self,
        case: Case,
        around: AbstractContextManager[object] = nullcontext(),  # noqa: B008
    ) -> tuple[dict[str, Any], float]:
        own = self._own
        if self._alone_s > MOST_ALONE_S + SLOWER_ALONE * self._reference_s:
            raise Ended(
                "timeout", f"Its timed calls took {self._alone_s:.0f} s together, for which all else stood still."
            )
        started = time.monotonic()
        try:
            answered = time_call(own.process, own.arena, case, self._settings, self._timed_limit_s, around)
        except ProcessFailure as error:
            raise self._broke_off_when_timed(error) from None
        except ValueError as error:
            raise self._own.violation("forged_message", str(error)) from None
        self._alone_s += time.monotonic() - started
        if self._settings.device == "cuda" and self._own.process.has_children():
            raise self._own.violation(
                "background_work", "a process that it started was still running when its call ended"
            )
        return answered

    def _examine_timed(self, reply: dict[str, Any], case: Case) -> Callable[[], None]:
        check = self._outputs.examine(reply, case)
        self._raise_errors()  # of the form: for the rest of the calls nobody else needs to stand still
        self._num_unfilled += self._outputs.unfilled
        if self._num_unfilled > MAX_UNFILLED:
            raise self._own.violation(
                "output_reused", "timed calls took their outputs from memory where they found zeros"
            )
        return check
