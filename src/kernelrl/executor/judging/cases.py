"""The cases of a task: inputs of a run with what must come out, made at their first use by calls of the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any, TypeVar

import torch

from kernelrl.errors import TaskError
from kernelrl.executor import trees
from kernelrl.executor.contest.distributions import BOUNDARY
from kernelrl.executor.judging import compare
from kernelrl.executor.judging.arena import Case, Draw, Shape, overlapping, view
from kernelrl.executor.judging.boundary import Boundaries, Called, pair_of
from kernelrl.executor.judging.expectations import befores, expect
from kernelrl.executor.judging.habits import Habits, find_not_finite
from kernelrl.executor.judging.images import Images
from kernelrl.executor.judging.latitude import narrow
from kernelrl.executor.judging.reference_parameters import CHECKED, ReferenceParameters
from kernelrl.executor.judging.reference_process import ReferenceProcess

MOST_OPEN = 0.25
"""Share of an output that may be NaN or infinite on finite hidden inputs where it is not on the task's own."""

MOST_BYTES = 1 << 30
"""Memory for the cases that one reference keeps: beyond it the oldest are forgotten, and made again where they are
needed."""

Made = TypeVar("Made")


class Cases:
    """Makes cases, and keeps them. Its user holds the reference's lock.

    Args:
        own: the reference's process.
        images: of the inputs.
        parameters: hidden ones.
    """

    habits: Habits
    """How the reference behaves, as its first call has shown."""

    def __init__(self, own: ReferenceProcess, images: Images, parameters: ReferenceParameters):
        self._own = own
        self._images = images
        self._parameters = parameters
        self._task = own.task
        self._made: dict[Draw, Case | None] = {}
        self._settled: dict[Draw, list[compare.Expected] | None] = {}
        self._boundaries = Boundaries()
        self.shapes: list[Shape] = []
        """Of the inputs; the first one is that which the task shows."""
        self.changes: list[int] = []
        """Numbers of the inputs that the first call has changed: on others some may stay, if a step is below a unit."""
        self.unborne: set[str] = set()
        """Distributions of hidden inputs that the reference does not bear, as timed calls have shown."""

    def of(self, draw: Draw) -> Case | None:
        """The case of that draw, made at its first use; None: the reference itself is not reliable on it."""
        if draw.distribution == BOUNDARY:
            return self.of_special(draw)
        if draw not in self._made:
            hidden = draw.distribution != "task"
            self.keep(draw, self._reliable_case(draw) if hidden else self._firmly(self.make, draw)[0])
        return self._made[draw]

    def of_special(self, draw: Draw) -> Case | None:
        """The same of inputs or parameters on which nothing else depends."""
        if draw not in self._made:
            case, reliable = self._try_case(draw)
            self.keep(draw, case if reliable else None)
        return self._made[draw]

    def keep(self, draw: Draw, case: Case | None) -> None:
        """Have this be the case of that draw, and forget the oldest ones that have no room beside it."""
        self._made[draw] = case
        too_many = self.num_bytes - MOST_BYTES
        for old, other in list(self._made.items()) if too_many > 0 else ():
            if too_many > 0 and other is not None and old != draw and not self._is_first(old):
                too_many -= other.num_bytes + sum(item.num_bytes for item in self._settled.pop(old, None) or ())
                del self._made[old]

    def _is_first(self, draw: Draw) -> bool:
        """Whether others are made by a case."""
        return draw in (Draw(0), Draw(0, parameters=self._parameters.number(CHECKED)))

    def kept(self, draw: Draw) -> Case | None:
        """The case of that draw, if it is kept: to ask needs no lock."""
        return self._made.get(draw)

    def drop(self, draw: Draw) -> None:
        """Make the case of that draw anew when it is needed next."""
        del self._made[draw]

    def forget(self) -> None:
        """Make all of them anew."""
        self._made.clear()
        self._settled.clear()
        self._boundaries.forget()
        self.unborne.clear()

    @property
    def num_bytes(self) -> int:
        """Memory that they hold."""
        cases = sum(case.num_bytes for case in list(self._made.values()) if case is not None)
        settled = sum(item.num_bytes for each in list(self._settled.values()) for item in each or ())
        return cases + settled + self._boundaries.num_bytes

    def provisional(self, draw: Draw) -> Case:
        """A case of the task's own draws that is held against the reference's own outputs at first.

        Raises:
            TaskError: the reference fails.
        """
        case = self._firmly(self._provisional, draw)
        assert case is not None  # the task's own distribution always applies
        return case

    def provisional_if_borne(self, draw: Draw) -> Case | None:
        """The same of other draws; None: the reference does not run on them."""
        try:
            return self._firmly(self._provisional, draw)
        except TaskError:
            if not self._own.process.alive:
                raise
            return None

    def _provisional(self, draw: Draw) -> Case | None:
        """See `provisional`.

        To compute them in float64, with what rounding does to them, takes several times as long, and is left until a
        candidate's differ (see `settle`).
        """
        case = self._made.get(draw)
        if case is None and (run := self.run(draw)) is not None:
            case, outputs = run
            selected = self._selected_of(case, outputs)
            before = befores(case, outputs)
            near = [compare.Near.to(*each) for each in zip(outputs, repeat(self._task), selected, before, strict=False)]
            case = replace(case, near=near, native=[] if find_not_finite(outputs) else outputs)
            self.keep(draw, case)
        return case

    def _selected_of(self, case: Case, outputs: list[torch.Tensor], otherwise: bool = False) -> list[bool]:
        """Of each output: of the first inputs that are checked, the reference gives it without any rounding.

        Args:
            case: the inputs of which the outputs are.
            outputs: behind them is what the reference has made of inputs.
            otherwise: what is said of those, and of outputs that the first inputs do not have.
        """
        first = self.of(Draw(0, parameters=self._parameters.number(CHECKED)))
        assert first is not None and first.expected is not None
        same = case.shape.form == first.shape.form
        known = [expected.selected for expected in first.expected[: len(first.outputs)]] if same else []
        return known + [otherwise] * (len(outputs) - len(known))

    def settle(self, case: Case) -> list[compare.Expected] | None:
        """The bounds by which outputs are right or wrong.

        None: the inputs are hidden ones on which the reference is not reliable.

        Raises:
            TaskError: the reference's outputs are not always the same.
        """
        if case.draw in self._settled:
            return self._settled[case.draw]
        is_tasks_own = case.draw.distribution == "task"
        try:
            made, reliable = self.make(case.draw, case)
        except TaskError:
            if is_tasks_own or not self._own.process.alive:
                raise
            made, reliable = None, False
        expected = made.expected if made is not None and (reliable or is_tasks_own) else None
        if expected is None:  # of what is rare no further calls: what is not checked must be few of those that count
            self.unborne.add(case.draw.distribution)
        if expected is not None and not compare.all_accepted(expected, [near.native for near in case.near]):
            raise TaskError(f"task {self._task.id}: the reference gives different outputs for the same inputs")
        self._settled[case.draw] = expected
        return expected

    def shape_of(self, sizes: dict[str, int], layout: dict[str, Any], native: dict[str, Any]) -> Shape:
        """The shape of inputs with which a call of the reference has just given that answer."""
        outputs = native["tensors"]
        self._check_outputs(outputs)
        fresh = [self._own.arena.is_of_the_call(described) for described in outputs]
        return Shape(sizes, layout, trees.outline(native["done"]), outputs, fresh, overlapping(outputs))

    def _check_outputs(self, native: list[dict[str, Any]]) -> None:
        if not native and not self.shapes:
            raise TaskError(f"task {self._task.id}: forward returns no tensor")
        for described in native:
            if described["stride"] is None or described["dtype"] not in trees.DTYPES:
                raise TaskError(
                    f"task {self._task.id}: outputs of {described['layout']} {described['dtype']} cannot be compared"
                )

    def _firmly(self, make: Callable[[Draw], Made], draw: Draw) -> Made:
        """What is made of a draw, with the task's own constants where the reference fails with others.

        That it bears these has been seen of one draw, and not of all.
        """
        try:
            return make(draw)
        except TaskError:
            if not self._own.process.alive or draw in self._images.firm or not any(self._images.loose):
                raise
            self._images.firm.add(draw)
            return make(draw)

    def _reliable_case(self, draw: Draw) -> Case | None:
        """A case on which the reference may fail or be unreliable; None: it does, or is."""
        tried: dict[str, tuple[Case | None, bool]] = {}

        def made() -> tuple[Case | None, bool]:
            holding = repr(self._images.further(draw.distribution))
            if holding not in tried:
                tried[holding] = self._try_case(draw)
            return tried[holding]

        def attempt() -> Case | None:
            case, reliable = made()
            return case if reliable else None

        if attempt() is None and self._images.varies_constants(draw):
            self._images.firm.add(draw)
            case, reliable = self._try_case(draw)
            if reliable:
                return case
            self._images.firm.remove(draw)
        if attempt() is None and (self._images.may_be_split or self._images.further(draw.distribution)):
            assert draw.distribution != "task"
            narrow(self._images, draw.distribution, lambda: attempt() is not None)
        return attempt() or self._partly_open(made()[0])

    def _partly_open(self, case: Case | None) -> Case | None:
        """A case of which some outputs are reliable, but for some elements that are NaN or infinite; None: none is.

        Of the others, and of these elements, any value is right.
        """
        expected = [] if case is None or case.expected is None else case.expected
        holds = [item.reliable and item.open_share <= MOST_OPEN for item in expected]
        if case is None or not any(holds) or not self._may_be_open([item.low for item in expected]):
            return None
        pairs = zip(expected, holds, strict=True)
        return replace(case, expected=[item if each else item.opened() for item, each in pairs])

    def _try_case(self, draw: Draw) -> tuple[Case | None, bool]:
        """What `make` gives; no case, where the reference fails."""
        try:
            return self._firmly(self.make, draw)
        except TaskError:
            if not self._own.process.alive:
                raise
            return None, False

    def make(self, draw: Draw, drawn: Case | None = None) -> tuple[Case | None, bool]:
        """A new case, and whether the reference in its own precision is well within its bounds.

        It is not where it makes much NaN or infinity of the draw, and none of the task's own inputs; nor where a system
        of the draw is so nearly singular that an output is little but rounding, and none of these.

        Args:
            draw: of the inputs.
            drawn: has the inputs, where they were drawn before.
        """
        hidden = draw.distribution != "task"
        first = (
            self.of(Draw(0, parameters=self._parameters.number(CHECKED))) if hidden else None
        )  # it may take other parameters
        if (run := self.run(draw, drawn)) is None:
            return None, False
        case, outputs = run
        as_usual = find_not_finite(outputs) <= self.habits.not_finite
        unusual = hidden and not as_usual
        if unusual and find_not_finite(self._inputs_of(case)):
            return None, False
        if unusual and not (self._may_be_open(outputs) or self._own.writes):
            return None, False
        selected = self._selected_of(case, outputs, otherwise=True) if hidden else [True] * len(outputs)
        expected = expect(self._own, case, outputs, [not each for each in selected], unusual)
        usual = first.expected if first is not None and first.expected else expected
        for number, (item, other) in enumerate(zip(expected, usual, strict=False)):
            if item.is_rounding and not other.is_rounding:
                expected[number] = replace(item, reliable=False)
        reliable = all(item.reliable and not item.open_share for item in expected)
        native = outputs if reliable else []
        return replace(case, expected=expected, native=native), reliable and (as_usual or hidden)

    @staticmethod
    def _may_be_open(outputs: list[torch.Tensor]) -> bool:
        """Whether NaN and infinity may be open: integers and booleans may have been made of them."""
        return all(output.is_floating_point() for output in outputs)

    @staticmethod
    def _inputs_of(case: Case) -> list[torch.Tensor]:
        tensors = (view(case.image, place) for place in case.shape.layout["tensors"] if place["bytes"])
        return [tensor for tensor in tensors if tensor.is_floating_point()]

    def run(self, draw: Draw, drawn: Case | None = None) -> tuple[Case, list[torch.Tensor]] | None:
        """Inputs (see `make`), and the reference's outputs on them, with what it makes of those that it changes.

        None: the distribution does not apply to this task.
        """
        own = self._own
        inputs = None
        if drawn is not None:
            inputs = drawn.image, drawn.shape
        elif draw.distribution == BOUNDARY:
            inputs = self._beside_a_boundary(draw)
        elif self.habits.bears(draw.distribution):
            inputs = self._images.draw(draw, self.shapes[draw.shape])
        if inputs is None:
            return None
        image, shape = inputs
        self._parameters.take(draw.parameters)
        native = own.call(shape.layout, image)
        other_numbers = shape.layout["form"] != self.shapes[draw.shape].layout["form"]
        other_form = trees.outline(native["done"]) != shape.form
        fresh = [own.arena.is_of_the_call(described) for described in native["tensors"]]
        if other_numbers or other_form or fresh != shape.fresh:  # what forward returns depends on the inputs
            shape = self.shape_of(shape.sizes, shape.layout, native)
        outputs = own.outputs(native)
        is_new_of_task = drawn is None and draw.distribution == "task" and self._images.varies_constants(draw)
        if is_new_of_task and not find_not_finite(outputs) <= self.habits.not_finite:
            raise TaskError(f"task {self._task.id}: forward makes NaN or infinity where its constants vary")
        changed = sorted({*self.changes, *own.arena.changed(image, shape.layout)})
        after = own.arena.inputs(shape.layout) if changed else []
        case = Case(draw, shape, image, native["tensors"], [], changed, None)
        return case, outputs + [after[index] for index in changed]

    def _beside_a_boundary(self, draw: Draw) -> tuple[torch.Tensor, Shape] | None:
        """Inputs on one side of the boundary of a decision, by the number of the draw; None: no such are known."""
        own, pair, shape = self._own, pair_of(draw), self.shapes[draw.shape]
        if self.habits.changes_more:
            return None
        if self._boundaries.decisions is None and self._images.draw(pair, shape) is None:
            self._boundaries.decisions = []
        if self._boundaries.decisions == []:
            return None
        self._parameters.take(draw.parameters)

        def inputs(place: float) -> tuple[torch.Tensor, Shape]:
            found = self._images.draw(pair, shape, place)
            if found is None:
                raise TaskError(f"task {self._task.id}: get_inputs() draws no floating-point numbers by PyTorch")
            return found

        def call(place: float) -> Called:
            image, shape = inputs(place)
            reply = own.call(shape.layout, image, deciding=True)
            tensors = own.outputs(reply)
            num_outputs = len(tensors) - reply["num_decisions"]
            return Called(tensors[:num_outputs], tensors[num_outputs:])

        def excludes(place: float, outputs: list[torch.Tensor], told: Sequence[int]) -> bool:
            image, shape = inputs(place)
            case, reliable = self.make(pair, Case(pair, shape, image, [], [], [], None))
            if case is None or case.expected is None or not reliable:
                return False
            expected = case.expected[: len(outputs)]  # what it makes of inputs comes behind
            if [each.low.shape for each in expected] != [each.shape for each in outputs]:
                return True
            outputs = compare.in_order_of(expected, outputs)
            return not all(expected[number].accepts(outputs[number]) for number in told)

        place = self._boundaries.place(draw, call, excludes, self._images.chooser(pair))
        return None if place is None else inputs(place)
