"""The hidden parameters of a task, and which of them the reference's model has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from kernelrl.executor.judging import parameters
from kernelrl.executor.judging.arena import Draw
from kernelrl.executor.judging.parameters import Parameters
from kernelrl.executor.judging.reference_process import ReferenceProcess
from kernelrl.executor.judging.seeds import Seeds

CHECKED, REDRAWN, TIMED = 1, 2, 3
"""Numbers of the hidden parameters: of further runs on the task's own inputs, on hidden ones, and of the timed runs."""


class ReferenceParameters:
    """Constructs the reference's model with hidden parameters.

    Args:
        own: the reference's process, with a model that was just constructed.
        seeds: of the draws.
        shown: what the constructor reported.
    """

    def __init__(self, own: ReferenceProcess, seeds: Seeds, shown: dict[str, Any]):
        self._own = own
        self._seeds = seeds
        self._hidden: dict[int, Parameters] = {}
        self._taken = 0
        self.shown = shown
        """What the constructor reports of the parameters that the task's program makes."""
        self.computed_vary = True
        """Parameters that are neither constant nor random get other values too."""

    @property
    def any(self) -> bool:
        """Whether the model has any that could be others."""
        return bool(self.shown["draws"] or self._hidden[CHECKED].given)

    def forget(self) -> None:
        """Draw others when they are needed next."""
        self._hidden.clear()
        self._taken = -1

    def draw(self) -> None:
        """Draw all sets of hidden parameters."""
        self.take(0)
        for number in (CHECKED, REDRAWN, TIMED):
            seed = self._seeds.of(Draw(number), "parameters")
            given = parameters.draw_given(self.shown, self._own.process.tensor, seed, self.computed_vary)
            self._hidden[number] = Parameters(f"{seed}", given, {})

    def take(self, number: int) -> None:
        """Have the process construct its model with these parameters, unless it has them."""
        if number == self._taken:
            return
        if number and not self._hidden:
            self.draw()
        self._taken = -1  # none, if the constructor fails
        if number == 0:
            self.shown = parameters.construct(self._own.ask, None, {})["parameters"]
        else:
            reply = self.construct(self._own.ask, number)
            self._hidden[number] = replace(self._hidden[number], report=reply["parameters"])
        self._taken = number

    def construct(self, ask: Callable[..., dict[str, Any]], number: int) -> dict[str, Any]:
        """Have a process construct its model with hidden parameters."""
        return parameters.construct(ask, self._hidden[number].hidden, self._hidden[number].given)

    def of(self, number: int) -> Parameters:
        """Hidden parameters, and what the reference's constructor reports with them."""
        if not self._hidden or not self._hidden[number].report:
            self.take(number)
        return self._hidden[number]

    def values(self, number: int, registrations: list[int]) -> list[torch.Tensor]:
        """What the model holds with hidden parameters, by the numbers of its registrations."""
        self.take(number)
        return [self._own.process.tensor(self._hidden[number].report["tensors"][each]) for each in registrations]
