"""Inputs beside the boundary of a decision, for tasks some of whose outputs are decisions or are made of them.

Rounding shows in such outputs where a decision is close, and on random inputs few are: weights in eight bits choose
the same largest of a thousand. Between two draws of the task's own there is a place where a decision is another one.
Inputs a little before and behind it, where any program in the task's precision still decides as the reference does,
show who computes less exactly: their boundary lies elsewhere, so they are wrong on one of the two sides.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from kernelrl.executor.api import BOUNDARY_RUNS
from kernelrl.executor.contest.values import are_same_bytes
from kernelrl.executor.judging.arena import Draw

NEAR = 2.0**-14
"""A step between two draws after which outputs that are decisions are the same, but for a thousand of them."""
HALVINGS = 24
"""Steps of bisection: the numbers of float32 are not much denser."""
DISTANCES = [2.0**-exponent for exponent in range(20, 4, -2)]
"""From a boundary, that are tried until rounding no longer decides."""
FARTHER = 16
"""By so much the distance is larger then: programs approximate functions with somewhat larger errors."""
NUM_CASES = BOUNDARY_RUNS // 2
"""Cases that are checked with the same parameters: both sides of two boundaries."""


JUMP = 1e-2
"""Outputs that change by less of their root mean square do not hang on a decision."""


@dataclass(frozen=True)
class Called:
    """What the reference gives on inputs between two draws."""

    outputs: list[torch.Tensor]
    decisions: list[torch.Tensor]
    """That it makes on its way, see `contest.decisions`."""

    @property
    def every(self) -> list[torch.Tensor]:
        """Its outputs, and then the decisions."""
        return [*self.outputs, *self.decisions]

    def of(self, number: int) -> torch.Tensor | None:
        """One of these; None: these inputs have no such."""
        every = self.every
        return every[number] if number < len(every) else None


Call = Callable[[float], Called]
"""Gives the reference's outputs at a place between two draws, 0 to 1."""
Excludes = Callable[[float, list[torch.Tensor], Sequence[int]], bool]
"""Whether at a place of some outputs those of these numbers are wrong."""


@dataclass(frozen=True)
class Boundary:
    """Where a decision is another one on the way from one draw to another."""

    decision: int
    """Its number, see `Called.of`."""
    before: float
    behind: float
    sides: tuple[Called, Called]
    """Before and behind it."""

    def place(self, side: int, distance: float) -> float:
        """So far before it (0) or behind it (1), but not beyond the two draws."""
        return min(1.0, self.behind + distance) if side else max(0.0, self.before - distance)

    def outputs_jump(self) -> bool:
        """Whether any output changes there by more than the inputs do."""
        first, second = (called.outputs for called in self.sides)
        return [each.shape for each in first] != [each.shape for each in second] or any(map(_jumps, first, second))


def pair_of(draw: Draw) -> Draw:
    """The draw whose boundary is that of both sides."""
    return replace(draw, index=draw.index // 2 * 2)


class Boundaries:
    """What is known of the boundaries of a task's decisions; they are found at their first use."""

    def __init__(self) -> None:
        self.decisions: list[int] | None = None
        """Numbers of the outputs, and of decisions behind these, that stay where inputs change a little; None: that has
        not been tried."""
        self._found: dict[Draw, Boundary | None] = {}
        self._distances: dict[int, float | None] = {}

    def forget(self) -> None:
        """Find them anew, between other draws."""
        self.decisions = None
        self._found.clear()
        self._distances.clear()

    @property
    def num_bytes(self) -> int:
        """Memory that the outputs beside them hold."""
        found = [boundary for boundary in list(self._found.values()) if boundary is not None]
        return sum(each.nbytes for boundary in found for side in boundary.sides for each in side.outputs)

    def place(self, draw: Draw, call: Call, excludes: Excludes, chooser: random.Random) -> float | None:
        """Where, on the way between two draws, the inputs of a draw lie: on the side that its number says.

        None: there is no boundary, or rounding may decide there.

        Args:
            draw: even numbers lie before a boundary, odd ones behind it.
            call: see `Call`.
            excludes: see `Excludes`. It may depend on the parameters of the draw alone.
            chooser: says which decision it is.
        """
        pair, side = pair_of(draw), draw.index % 2
        if self.decisions is None:
            self.decisions = find_decisions(call)
        if pair not in self._found:
            self._found[pair] = self._find(call, chooser.sample(self.decisions, len(self.decisions)))
        if (boundary := self._found[pair]) is None:
            return None
        number, num_outputs = boundary.decision, len(boundary.sides[side].outputs)
        told = [number] if number < num_outputs else list(range(num_outputs))
        if draw.parameters not in self._distances:
            self._distances[draw.parameters] = find_distance(
                boundary, side, lambda place, outputs: excludes(place, outputs, told)
            )
        if (distance := self._distances[draw.parameters]) is None:
            return None
        place = boundary.place(side, distance)
        return place if are_equal(call(place).of(number), boundary.sides[side].of(number)) else None

    def _find(self, call: Call, numbers: Sequence[int]) -> Boundary | None:
        """The boundary of the first of some decisions that has one. On those of some nothing hangs, as where the
        largest value is subtracted from the others: they are left out from then on."""
        assert self.decisions is not None
        for number in numbers:
            found = find_boundary(call, number)
            if found is not None and found.outputs_jump():
                return found
            if found is not None:
                self.decisions.remove(number)
        return None


def find_decisions(call: Call) -> list[int]:
    """Numbers of the outputs and decisions that stay as they are when inputs change a little, if not all inputs do.

    Args:
        call: see `Call`.
    """
    first, second = call(0.0), call(NEAR)
    if len(first.outputs) != len(second.outputs) or len(first.decisions) != len(second.decisions):
        return []
    return [number for number, pair in enumerate(zip(first.every, second.every, strict=True)) if are_equal(*pair)]


def find_boundary(call: Call, number: int) -> Boundary | None:
    """A place where a decision is another one; None: it is the same at both ends.

    Args:
        call: see `Call`.
        number: of the decision, see `find_decisions`.
    """
    before, behind = 0.0, 1.0
    first, last = call(before), call(behind)
    if are_equal(first.of(number), last.of(number)):
        return None
    for _ in range(HALVINGS):
        middle = (before + behind) / 2
        called = call(middle)
        if are_equal(called.of(number), first.of(number)):
            before, first = middle, called
        else:
            behind, last = middle, called
    return Boundary(number, before, behind, (first, last))


def find_distance(boundary: Boundary, side: int, excludes: Callable[[float, list[torch.Tensor]], bool]) -> float | None:
    """Distance from a boundary at which rounding does not decide; None: it is not small.

    Args:
        boundary: on the way between two draws.
        side: before it (0) or behind it (1).
        excludes: says of a place whether these outputs, the other side's, are wrong there.
    """
    others = boundary.sides[1 - side].outputs
    least = next((each for each in DISTANCES if excludes(boundary.place(side, each), others)), None)
    return None if least is None else FARTHER * least


def are_equal(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    """Whether two calls gave the same."""
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and are_same_bytes(one, other)


def _jumps(output: torch.Tensor, other: torch.Tensor) -> bool:
    if not output.is_floating_point():
        return not torch.equal(output, other)
    size = float(output.double().nan_to_num(0.0, 0.0, 0.0).square().mean().sqrt())
    return bool(((output.double() - other.double()).abs() > JUMP * size).any())
