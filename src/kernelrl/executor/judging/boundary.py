"""Inputs beside the boundary of a decision, for tasks whose outputs are indices, booleans or what is made of these.

Rounding shows in such outputs where a decision is close, and on random inputs few are: weights in eight bits choose
the same largest of a thousand. Between two draws of the task's own there is a place where an output changes. Inputs a
little before and behind it, where any program in the task's precision still decides as the reference does, show who
computes less exactly: their boundary lies elsewhere, so they are wrong on one of the two sides.
"""

from __future__ import annotations

from collections.abc import Callable
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


@dataclass(frozen=True)
class Boundary:
    """Where an output changes on the way from one draw to another."""

    before: float
    behind: float
    outputs: tuple[list[torch.Tensor], list[torch.Tensor]]
    """The reference's, before and behind."""

    def place(self, side: int, distance: float) -> float:
        """So far before it (0) or behind it (1), but not beyond the two draws."""
        return min(1.0, self.behind + distance) if side else max(0.0, self.before - distance)


def pair_of(draw: Draw) -> Draw:
    """The draw whose boundary is that of both sides."""
    return replace(draw, index=draw.index // 2 * 2)


class Boundaries:
    """What is known of the boundaries of a task's decisions; they are found at their first use."""

    def __init__(self) -> None:
        self.exist: bool | None = None
        """Whether all outputs are decisions, and there are two draws to go between; None: that has not been tried."""
        self._found: dict[Draw, Boundary | None] = {}
        self._distances: dict[int, float | None] = {}

    def forget(self) -> None:
        """Find them anew, between other draws."""
        self.exist = None
        self._found.clear()
        self._distances.clear()

    @property
    def num_bytes(self) -> int:
        """Memory that the outputs beside them hold."""
        found = [boundary for boundary in list(self._found.values()) if boundary is not None]
        return sum(output.nbytes for boundary in found for side in boundary.outputs for output in side)

    def place(
        self,
        draw: Draw,
        call: Callable[[float], list[torch.Tensor]],
        excludes: Callable[[float, list[torch.Tensor]], bool],
    ) -> float | None:
        """Where, on the way between two draws, the inputs of a draw lie: on the side that its number says.

        None: there is no boundary, or rounding may decide there.

        Args:
            draw: even numbers lie before a boundary, odd ones behind it.
            call: gives the reference's outputs at a place between the two draws, 0 to 1.
            excludes: see `find_distance`. It may depend on the parameters of the draw alone.
        """
        pair, side = pair_of(draw), draw.index % 2
        if self.exist is None:
            self.exist = decides(call)
        if not self.exist:
            return None
        if pair not in self._found:
            self._found[pair] = find_boundary(call)
        if (boundary := self._found[pair]) is None:
            return None
        if draw.parameters not in self._distances:
            self._distances[draw.parameters] = find_distance(boundary, side, excludes)
        if (distance := self._distances[draw.parameters]) is None:
            return None
        place = boundary.place(side, distance)
        return place if are_equal(call(place), boundary.outputs[side]) else None


def decides(call: Callable[[float], list[torch.Tensor]]) -> bool:
    """Whether outputs stay as they are when inputs change a little.

    Args:
        call: gives the reference's outputs at a place between two draws, 0 to 1.
    """
    return are_equal(call(0.0), call(NEAR))


def find_boundary(call: Callable[[float], list[torch.Tensor]]) -> Boundary | None:
    """A place where an output changes; None: it is the same at both ends.

    Args:
        call: see `decides`.
    """
    before, behind = 0.0, 1.0
    first, last = call(before), call(behind)
    if are_equal(first, last):
        return None
    for _ in range(HALVINGS):
        middle = (before + behind) / 2
        outputs = call(middle)
        if are_equal(outputs, first):
            before = middle
        else:
            behind, last = middle, outputs
    return Boundary(before, behind, (first, last))


def find_distance(boundary: Boundary, side: int, excludes: Callable[[float, list[torch.Tensor]], bool]) -> float | None:
    """Distance from a boundary at which rounding does not decide; None: it is not small.

    Args:
        boundary: on the way between two draws.
        side: before it (0) or behind it (1).
        excludes: says of a place whether these outputs, the other side's, are wrong there.
    """
    others = boundary.outputs[1 - side]
    least = next((each for each in DISTANCES if excludes(boundary.place(side, each), others)), None)
    return None if least is None else FARTHER * least


def are_equal(outputs: list[torch.Tensor], others: list[torch.Tensor]) -> bool:
    """Whether two calls gave the same."""
    if [each.shape for each in outputs] != [each.shape for each in others]:
        return False
    return all(map(are_same_bytes, outputs, others))
