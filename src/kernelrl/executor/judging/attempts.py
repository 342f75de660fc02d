"""Runs of a reference that it may not bear: on inputs and with parameters that its task does not show."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, repeat

import torch

from kernelrl.errors import TaskError
from kernelrl.executor.judging.arena import Case, Draw
from kernelrl.executor.judging.compare import DEFAULT_TOLERANCE, Expected
from kernelrl.executor.judging.habits import find_not_finite
from kernelrl.executor.processes.process import Process

NARROW, OF_TOLERANCE = 1e-3, 10.0
"""Bounds of this relative width, or of so many times the usual tolerance, leave nothing out, whatever the parameters
are: with the task's own an output may be zero throughout."""
WIDER = 10.0
"""Bounds with other parameters may be so many times as wide as those with the task's own."""

Run = tuple[Case, list[torch.Tensor]]


class Attempts:
    """Tells what a reference bears.

    Args:
        process: where it runs.
        make: a case, and whether the reference is reliable on it.
        run: a run without bounds, and the outputs. Either may raise `TaskError`, or give None where the draw's
            distribution does not apply.
    """

    def __init__(
        self, process: Process, make: Callable[[Draw], tuple[Case | None, bool]], run: Callable[[Draw], Run | None]
    ):
        self._process = process
        self._make = make
        self._run = run

    def bears(self, draw: Draw) -> bool:
        """Whether the reference on a draw is as reliable as on the task's own inputs and parameters."""
        return self.borne_case(draw) is not None

    def borne_case(self, draw: Draw) -> Case | None:
        """A case on which the reference is as reliable as on the task's own inputs and parameters."""
        case, reliable = self._attempt(draw)
        if case is None or case.expected is None:
            return None
        finite = all(item.nan is None for item in case.expected)
        return case if reliable or (finite and not self._make(Draw(0))[1]) else None

    def telling_case(self, draw: Draw) -> Case | None:
        """The same, if its bounds are about as narrow as those with the task's own parameters."""
        case = self.borne_case(draw)
        return case if case is not None and self._is_telling(case) else None

    def _is_telling(self, case: Case) -> bool:
        dtypes = chain((described["dtype"] for described in case.outputs), repeat(""))  # behind them changed inputs
        if all(_is_narrow(*each) for each in zip(case.expected or (), dtypes, strict=False)):
            return True
        own = self._make(Draw(0))[0]
        return own is not None and _width(case) <= WIDER * _width(own)

    def runs(self, draw: Draw, not_finite: set[str]) -> bool:
        """Whether the reference runs on a draw, always alike and with no other of NaN and infinity than these."""
        try:
            first, second = self._run(draw), self._run(draw)
        except TaskError:
            if not self._process.alive:
                raise
            return False
        if first is None or second is None or not find_not_finite(first[1]) <= not_finite:
            return False
        return all(
            torch.equal(one.nan_to_num(), other.nan_to_num()) for one, other in zip(first[1], second[1], strict=True)
        )

    def _attempt(self, draw: Draw) -> tuple[Case | None, bool]:
        try:
            return self._make(draw)
        except TaskError:
            if not self._process.alive:
                raise
            return None, False


def _is_narrow(expected: Expected, dtype: str) -> bool:
    return expected.width < max(NARROW, OF_TOLERANCE * DEFAULT_TOLERANCE.get(dtype, 0.0))


def _width(case: Case) -> float:
    return max((expected.width for expected in case.expected or ()), default=0.0)
