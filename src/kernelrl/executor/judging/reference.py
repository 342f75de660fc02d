"""The referee's side of a task: fresh inputs, expected outputs and the reference's process, made once per group."""

from __future__ import annotations

import mmap
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain
from typing import Any

import torch

from kernelrl.errors import TaskError
from kernelrl.executor.api import Distribution, ExecutorSettings
from kernelrl.executor.contest.distributions import BOUNDARY, NOT_FINITE, RARE
from kernelrl.executor.judging import compare
from kernelrl.executor.judging.arena import Case, Draw, Shape
from kernelrl.executor.judging.attempts import Attempts
from kernelrl.executor.judging.baseline import Baseline, NoBaseline
from kernelrl.executor.judging.boundary import NUM_CASES
from kernelrl.executor.judging.cases import MOST_BYTES, Cases
from kernelrl.executor.judging.demand import Demand, find_demand
from kernelrl.executor.judging.expectations import Dependence
from kernelrl.executor.judging.habits import Habits, find_not_finite, learn_habits, moves_values
from kernelrl.executor.judging.images import APART_FROM, APART_TO, Images
from kernelrl.executor.judging.latitude import (
    find_apart,
    find_loose,
    find_seldom,
    find_slopes,
    find_twins,
    find_variation,
)
from kernelrl.executor.judging.other_numbers import choose
from kernelrl.executor.judging.reference_parameters import (
    CHECKED,
    INITIAL,
    REDRAWN,
    TIMED,
    ReferenceParameters,
)
from kernelrl.executor.judging.reference_process import ReferenceProcess
from kernelrl.executor.judging.seeds import Seeds
from kernelrl.executor.judging.timed_reference import TimedReference
from kernelrl.executor.processes.cores import Cores
from kernelrl.executor.processes.peak_memory import PeakMemory
from kernelrl.executor.processes.process import Process
from kernelrl.task import Task

_DRAWN_AGAIN_FROM = APART_TO
"""Inputs of a trial that are drawn once more have numbers beyond those of timed calls."""
_CROSSED_FROM = 1 << 19
"""So have those of other sizes or numbers that are hidden as well."""
CROSSED = 2
"""Hidden distributions in which each of these comes."""
_SPECIAL_FROM = 1 << 20
"""So have those that come with special parameters."""
DRAWS = 2
"""How often something rare, or not finite, is drawn until the reference bears it."""

BEHIND = mmap.PAGESIZE
"""Memory behind the inputs: what reads there is left to the second look, and not to what happens to lie there."""


class Reference:
    """A task's reference in a process of its own.

    Args:
        task: the task.
        process: where it runs, in which libraries may compute.
        start: starts further ones.
        cores: says when it may run.
        settings: seeds, hidden shapes, oracle, limits of time.
        secret: makes the seeds of the inputs impossible to guess for who knows the task and the seed.

    Raises:
        TaskError: the reference does not load or run; names the task and the error.
    """

    def __init__(
        self,
        task: Task,
        process: Process,
        start: Callable[..., Process],
        cores: Cores,
        settings: ExecutorSettings,
        secret: str,
    ):
        self.task = task
        self.lock = threading.Lock()
        self.settings = settings
        self._cores = cores
        self.seeds = Seeds(task, settings, secret)
        self._start = start
        self._borne: list[Distribution] = []  # of those that are rare
        self._baseline: Baseline | str | None = None
        self._peak: int | None = None
        self.changes_inputs = False
        """Forward does, on some of what is checked."""
        self._sizes_are_old = self._numbers_are_old = False
        self._checked: dict[frozenset[int], list[Draw]] = {}  # by what a candidate packs
        self.has_parameters = False
        self.habits: Habits
        self.process = process
        self._own = ReferenceProcess(task, self.process, cores, settings)
        self._images = Images(self._own, self.seeds)
        self._load()

    @property
    def parameters_vary(self) -> bool:
        """Whether calls have hidden parameters."""
        return self.parameters.vary

    @property
    def _shapes(self) -> list[Shape]:
        return self._cases.shapes

    def _load(self) -> None:
        own, images, settings = self._own, self._images, self.settings
        seed = self.seeds.of_construction
        unknown: dict[str, Any] = {"init": None, "init_tensors": [], "seed": seed}
        loading = self._cores.stopwatch()
        loaded = own.ask(own.load_question | unknown, settings.load_timeout_s)
        self.construction_s = loading()
        self.init = {"init": loaded["init"], "init_tensors": loaded["init_tensors"], "seed": seed}
        self.parameters = ReferenceParameters(own, self.seeds, loaded["parameters"])
        self._cases = Cases(own, images, self.parameters)
        registered = {each["dtype"] for each in loaded["parameters"]["tensors"]}
        self.dtypes = {dtype for dtype in registered if "float" in dtype}
        hidden_bytes = max(self._bytes_of_hidden_sizes())
        drawn = own.ask(images.question(Draw(0), {}))
        layout = images.lay_out(drawn)
        image = images.of(layout, drawn)
        self.arena_bytes = max(layout["size"], hidden_bytes) + BEHIND
        own.attach(self.arena_bytes)
        shown = self._show(layout, image)
        self._draw_sizes()
        images.find_varying(image, layout)
        attempts = self._attempts()
        if settings.oracle == "native":
            images.loose = [None] * len(images.varying)
        else:
            images.loose = find_loose(images, attempts.bears, image, layout, self.habits.reads)
            images.twins = find_twins(images, attempts.bears, image, layout)
            images.copies = find_apart(images, attempts.bears, image, layout)
            mixes_integers = drawn["draws_integers"]
            images.learn(
                drawn,
                self.habits.thresholds,
                mixes_integers,
                self.habits.minds_not_finite,
                self.habits.may_split_not_finite,
            )
            self.parameters.learn(self.habits.thresholds)
        self.parameters.vary = self._try_parameters(attempts)
        if self.parameters.vary and self.habits.moves_values:
            self.parameters.take(CHECKED)
            moves = moves_values(own, shown, own.outputs(own.call(layout, image)), layout, image)
            self.habits = self._cases.habits = replace(self.habits, moves_values=moves)
        if settings.oracle != "native":
            self._vary_numbers()

    def _attempts(self) -> Attempts:
        return Attempts(self.process, self._cases.make, self._cases.run)

    def _bytes_of_hidden_sizes(self) -> Iterator[int]:
        """What inputs of hidden sizes take in the arena, those that will be drawn later among them."""
        yield 0
        later = [self.seeds.largest_sizes] if self.seeds.are_renewed and self.seeds.largest_sizes else []
        for index, sizes in enumerate([*self.seeds.hidden_sizes(), *later], start=1):
            try:
                yield self._images.lay_out(self._own.ask(self._images.question(Draw(0, shape=index), sizes)))["size"]
            except TaskError:  # it will be left out
                if not self.process.alive:
                    raise

    def _show(self, layout: dict[str, Any], image: torch.Tensor) -> dict[str, Any]:
        """Call it on the first inputs, of the size that the task shows. Returns the answer."""
        own = self._own
        before = own.ask({"do": "state"})["state"]
        native = own.call(layout, image, filled=True, recorded=True, compared=True)
        self._cases.shapes = [self._cases.shape_of({}, layout, native)]
        own.arena.outputs(native, own.ask)
        self._cases.changes = own.arena.changed(image, layout)
        self._check_changes(native)
        self.dtypes |= {each["dtype"] for each in (*layout["tensors"], *native["tensors"])}
        own.masks = native["thresholds"]["masks"]
        self.habits = self._cases.habits = learn_habits(own, before, native, layout, image)
        own.eliminates = self.habits.eliminates
        own.writes = native["thresholds"]["writes"]
        return native

    def _check_changes(self, native: dict[str, Any]) -> None:
        """Refuse what the first call has done to its inputs, if no candidate could be held to it."""
        if native["leaves_behind"]:
            raise TaskError(
                f"task {self.task.id}: forward() leaves something in a list or a dictionary among its inputs that it "
                "does not return; only changes of tensors are seen, so it must be written into one, or be returned"
            )
        changes = self._cases.changes
        if changes and self._own.ask({"do": "shared", "numbers": changes})["shared"]:
            raise TaskError(
                f"task {self.task.id}: forward() changes an input that shares memory with another one; "
                "candidates get them apart from each other, so get_inputs() must return a copy of one"
            )

    def _draw_sizes(self) -> None:
        """Hidden sizes, with the shown one or an earlier one for each with which the reference fails."""
        self._sizes_are_old = False
        own, images = self._own, self._images
        self.parameters.take(0)
        hidden = self.seeds.hidden_sizes()
        shapes = self._shapes
        shapes += shapes[:1] * (1 + len(hidden) - len(shapes))
        fault: TaskError | None = None
        for index, sizes in enumerate(hidden, start=1):
            try:
                drawn = own.ask(images.question(Draw(0, shape=index), sizes))
                layout = images.lay_out(drawn)
                if layout["size"] > self.arena_bytes - BEHIND:
                    continue
                native = own.call(layout, images.of(layout, drawn), filled=True)
                shapes[index] = self._cases.shape_of(sizes, layout, native)
                own.arena.outputs(native, own.ask)
            except TaskError as error:
                if not self.process.alive:
                    raise
                fault = error
        if fault is not None and not any(shape.sizes for shape in shapes):
            raise fault

    def _vary_numbers(self) -> None:
        """Add calls with other numbers where the task passes some beside its tensors, as the reference bears them."""
        attempts, self._numbers_are_old = self._attempts(), False
        shapes = self._cases.shapes = [shape for shape in self._shapes if not shape.numbers_vary]
        shown = shapes[0]

        def bears(form: Any) -> bool:
            shapes.append(replace(shown, layout=shown.layout | {"form": form}, numbers_vary=True))
            draw = Draw(0, shape=len(shapes) - 1)
            if attempts.runs(draw, self.habits.not_finite) and attempts.bears(draw):
                return True
            shapes.pop()
            return False

        choose(shown.layout["form"], self.task.source, random.Random(self.seeds.of(Draw(0), "numbers")), bears)

    def _try_parameters(self, attempts: Attempts) -> bool:
        """Whether the reference is reliable with hidden parameters, if it has any."""
        if self.settings.seeds == "kernelbench":
            self.has_parameters = self.parameters.registers
            return False
        try:
            self.parameters.draw()
        except TaskError:
            if not self.process.alive:
                raise
            self.has_parameters = self.parameters.registers
            return False
        self.has_parameters = self.parameters.any
        draw = Draw(0, parameters=CHECKED)

        def bears() -> bool:
            case = attempts.telling_case(draw)
            if case is not None:
                self._cases.keep(draw, case)
            return case is not None

        runs = partial(attempts.runs, draw, self.habits.not_finite)
        if not self.has_parameters or not find_variation(self.parameters, bears, runs):
            return False

        def bears_number(number: int) -> bool:
            return attempts.telling_case(Draw(0, parameters=number)) is not None

        find_slopes(self.parameters, bears_number)
        find_seldom(self.parameters, bears_number)
        self.parameters.special = [number for number in self.parameters.applicable if bears_number(number)]
        if self.parameters.slopes != "none":
            self._cases.drop(draw)
        return True

    def checked_draws(self, packed: frozenset[int]) -> list[Draw]:
        """What is checked before timing, draws of no use left out. The caller holds `lock`.

        Args:
            packed: numbers of the registrations that the candidate holds in a form of its own.

        Raises:
            TaskError: the reference fails, or see `Dependence`.
        """
        if self._sizes_are_old:
            self._draw_sizes()
        if self._numbers_are_old:
            self._vary_numbers()
        if packed not in self._checked:
            self._checked[packed] = self._find_checked(packed)
        return self._checked[packed]

    def _find_checked(self, packed: frozenset[int]) -> list[Draw]:
        settings, dependence = self.settings, Dependence(self.task, self.habits.eliminates)
        checked, redrawn = self.parameters.number(CHECKED, packed), self.parameters.number(REDRAWN, packed)
        draws: list[Draw] = []
        changes = False

        def add(case: Case | None) -> None:
            nonlocal changes
            if case is not None:
                draws.append(case.draw)
                changes |= bool(case.changed)
                if not case.draw.shape:
                    dependence.look_at((case.expected or [])[: len(case.outputs)])

        for index in range(settings.trials):
            add(self._trial(index, checked))
        planned = self._special_draws(packed)
        planned += [Draw(0, shape=index, parameters=checked) for index in range(1, len(self._shapes))]
        if BOUNDARY in settings.distributions:  # some hidden parameters leave nothing to decide
            initial = self.parameters.number(INITIAL, packed) if self.parameters.vary else checked
            sides = enumerate([checked] * NUM_CASES + [initial] * NUM_CASES)
            planned += [Draw(index, BOUNDARY, parameters=parameters) for index, parameters in sides]
        planned += [
            Draw(index, name, parameters=redrawn)
            for index, name in enumerate(settings.distributions)
            if name != BOUNDARY and (name not in self._rare or name in self._rare[settings.trials - 1 :])
        ]
        for draw in planned:
            add(self._case_of_some(draw))
        borne = {draw.distribution for draw in draws} - {BOUNDARY}
        for draw in self._crossed([name for name in settings.distributions if name in borne], packed):
            add(self.case(draw))
        dependence.check()
        shown = {draw.distribution for draw in draws}
        self._borne = [] if changes else [name for name in self._rare if name in shown]
        self.changes_inputs = changes
        in_turn = list(dict.fromkeys(draw.parameters for draw in draws))  # of which a candidate gets each once
        return sorted(draws, key=lambda draw: in_turn.index(draw.parameters))

    def checked_case(self, draw: Draw) -> Case:
        """The case of a draw that is checked, made again if there was no room to keep it. The caller holds `lock`.

        Raises:
            TaskError: the reference fails, or is not reliable on what it was reliable on.
        """
        case = self.case(draw)
        if case is None:
            raise TaskError(f"task {self.task.id}: the reference gives different outputs for the same inputs")
        return _named(case)

    def kept_case(self, draw: Draw) -> Case | None:
        """The same, if it is kept: to ask needs no lock."""
        case = self._cases.kept(draw)
        return None if case is None else _named(case)

    def _crossed(self, names: list[Distribution], packed: frozenset[int]) -> Iterator[Draw]:
        """Hidden values in further sizes, with other numbers beside the tensors, and with the program's own parameters:
        who looks at one of these first must be right on both at once."""
        redrawn = self.parameters.number(REDRAWN, packed)
        draws = [Draw(_CROSSED_FROM, shape=shape, parameters=redrawn) for shape in range(1, len(self._shapes))]
        if self.parameters.vary:
            draws.append(Draw(_CROSSED_FROM, parameters=self.parameters.number(INITIAL, packed)))
        for draw in draws:
            chosen = self._images.chooser(replace(draw, parameters=0)).sample(names, min(CROSSED, len(names)))
            yield from (replace(draw, distribution=name) for name in chosen)

    def _special_draws(self, packed: frozenset[int]) -> list[Draw]:
        """The task's own inputs with parameters as its program makes them, and with special ones."""
        if not self.parameters.vary:
            return []
        purposes = [INITIAL, *self.parameters.special]
        return [Draw(_SPECIAL_FROM + each, parameters=self.parameters.number(each, packed)) for each in purposes]

    @cached_property
    def _rare(self) -> list[Distribution]:
        """What trials and timed calls hold by turns that are otherwise as the task draws them."""
        return [name for name in self.settings.distributions if name in RARE]

    def _trial(self, index: int, parameters: int) -> Case:
        """A trial on the task's own inputs, with something rare in most of them, but never in the first."""
        if index and self._rare:
            name = self._rare[(index - 1) % len(self._rare)]
            if (case := self._case_of_some(Draw(index, name, parameters=parameters))) is not None:
                return case
        case = self._cases.of(Draw(index, parameters=parameters))
        assert case is not None  # the task's own distribution always applies
        return case

    def _case_of_some(self, draw: Draw) -> Case | None:
        """The case of a draw: of another one, if the reference does not bear this one of something rare."""
        case = self.case(draw)
        if case is None and draw.distribution in (*RARE, *NOT_FINITE) and self.habits.bears(draw.distribution):
            others = (replace(draw, index=draw.index + again * _DRAWN_AGAIN_FROM) for again in range(1, DRAWS))
            case = next((case for each in others if (case := self._cases.of(each)) is not None), None)
        return case

    def first_draws(self, hidden: bool) -> list[Draw]:
        """The first one of each shape, and those with hidden values that are checked, if `hidden`.

        The caller holds `lock`.
        """
        draws = [Draw(0, shape=index, parameters=self.parameters.number(CHECKED)) for index in range(len(self._shapes))]
        borne = [draw for draw in draws if self.case(draw) is not None]
        checked = chain.from_iterable(list(self._checked.values())[-1:])
        return borne + [draw for draw in checked if hidden and draw.distribution != "task"]

    def renew(self) -> None:
        """From now on draw other inputs: whoever has seen a verdict on the last ones does not meet them again."""
        if self.seeds.renew():
            self.forget()
            self._sizes_are_old = bool(self.seeds.largest_sizes)
            self._numbers_are_old = "float" in repr(self._shapes[0].layout["form"])
            self._images.forget()

    def forget(self) -> None:
        """Draw inputs and parameters anew, from the same seeds, when they are needed next."""
        self._cases.forget()
        self._checked.clear()
        self.parameters.forget()

    def timed_case(self, index: int, packed: frozenset[int]) -> Case:
        """Inputs for a timed call, with parameters that no checked run has seen. The caller holds `lock`."""
        parameters = self.timed_parameters(packed)
        bearable = [None, *(name for name in self._borne if name not in self._cases.unborne)]
        if name := random.Random(self.seeds.of(Draw(index), "rare")).choice(bearable):
            case = self._cases.provisional_if_borne(Draw(index, name, parameters=parameters))
            if case is not None and find_not_finite([near.native for near in case.near]) <= self.habits.not_finite:
                return case
        return self._cases.provisional(Draw(index, parameters=parameters))

    @property
    def bears_rare(self) -> bool:
        """Whether inputs of timed calls hold something rare now and then."""
        return bool(self._borne)

    def hidden_case(self, index: int, distribution: Distribution, packed: frozenset[int]) -> Case | None:
        """Hidden inputs for a call among the timed ones, with their parameters. The caller holds `lock`.

        None: the reference does not run on them.
        """
        draw = Draw(APART_FROM + index, distribution, parameters=self.timed_parameters(packed))
        return self._cases.provisional_if_borne(draw)

    def timed_parameters(self, packed: frozenset[int]) -> int:
        """Number of the parameters of timed calls."""
        return self.parameters.number(TIMED, packed)

    def case(self, draw: Draw) -> Case | None:
        """See `Cases.of` and `Cases.of_special`. The caller holds `lock`."""
        return self._cases.of_special(draw) if draw.index >= _SPECIAL_FROM else self._cases.of(draw)

    def settle(self, case: Case) -> list[compare.Expected] | None:
        """See `Cases.settle`. The caller holds `lock`."""
        return self._cases.settle(case)

    @property
    def num_bytes(self) -> int:
        """Memory that `forget` gives back."""
        return self._cases.num_bytes + self.parameters.num_bytes

    def has_room_for(self, num_cases: int) -> bool:
        """Whether so many more cases can be kept at once. The caller holds `lock`."""
        first = self._cases.of(Draw(0, parameters=self.parameters.number(CHECKED)))
        assert first is not None  # the task's own distribution always applies
        return num_cases * first.num_bytes <= MOST_BYTES

    def demand(self) -> Demand:
        """What every program must read, write and compute in a call. The caller holds `lock`."""
        habits = self.habits
        if self._images.draws_numbers:  # of which one call may be large and another one small
            return Demand(0, 0, 0)
        return find_demand(self._own, self._shapes[0], self.seeds, self.parameters_vary, habits.changes_more)

    def peak_memory(self) -> int:
        """Peak memory of a process that loads the reference and calls it once (in bytes). The caller holds `lock`."""
        if self._peak is not None:
            return self._peak
        number = self.parameters.number(CHECKED)
        case = self._cases.of(Draw(0, parameters=number))
        assert case is not None
        if self.settings.timing:  # the right ones need such a process
            if self.timed.peak_bytes is None:
                self.timed.prepare(case)
            self._peak = self.timed.peak_bytes
        if self._peak is None:
            self._peak = self._peak_of_another(case)
        return self._peak

    def _peak_of_another(self, case: Case) -> int:
        process = self._start("library")
        try:
            other = self._own.in_process(process)
            memory = PeakMemory(process.pid)
            other.attach(self.arena_bytes)
            other.ask(other.load_question | self.init)
            if case.draw.parameters:
                self.parameters.construct(other.ask, case.draw.parameters)
            other.call(case.shape.layout, case.image, recorded=True)
            return memory.num_bytes(case.image.numel())
        finally:
            self._cores.close(process)

    def compiled(self) -> Baseline | str:
        """The reference under `torch.compile`, or why there is none. The caller holds `lock`."""
        if self._images.draws_numbers:
            return "the task draws numbers that it passes: torch.compile would compile for each of them"
        if self._baseline is None:
            case = self._cases.of(Draw(0))
            assert case is not None
            parts = self._start("compiler"), self._cores, self.settings, self._own.load_question | self.init
            try:
                self._baseline = Baseline(self.task, *parts, self.arena_bytes, case)
            except NoBaseline as error:
                self._baseline = str(error)
        return self._baseline

    @cached_property
    def timed(self) -> TimedReference:
        """The reference as it is timed. The caller holds `lock`."""
        start = None if self.settings.device == "cuda" else partial(self._start, "operators")
        load = self._own.load_question | self.init
        return TimedReference(self._own, self.parameters, load, self.arena_bytes, start)

    def close(self) -> None:
        """End its processes, and forget its cases."""
        self._cases.forget()
        processes = [self.process]
        if "timed" in vars(self):
            processes += self.timed.processes
        if isinstance(self._baseline, Baseline):
            processes.append(self._baseline.process)
        self._cores.close(*processes)


def _named(case: Case) -> Case:
    """A case that says what is special about it."""
    return replace(case, as_made=True) if case.draw.index == _SPECIAL_FROM + INITIAL else case
