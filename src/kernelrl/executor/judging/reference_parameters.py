"""The hidden parameters of a task, and which of them the reference's model has."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import torch

from kernelrl.executor.judging import parameters, variation
from kernelrl.executor.judging.arena import Draw
from kernelrl.executor.judging.parameters import Parameters
from kernelrl.executor.judging.reference_process import ReferenceProcess
from kernelrl.executor.judging.seeds import Seeds

KEYED = -1
"""Number of parameters that are nothing but drawn anew: what a candidate registers is known by them. None is tried."""
CHECKED, REDRAWN, TIMED, INITIAL, ZERO, SIDED, OPPOSITE, FAINT, CONSTANT = 1, 2, 3, 4, 5, 6, 7, 8, 9
"""Numbers of the hidden parameters: of further runs on the task's own inputs, on hidden ones, and of the timed runs; of
one with such as the task's program makes (draws of its kind, and its constants), of one where single numbers are
zero, of two in which each bias lies on one side of zero, and on the other, of one where what is drawn is small, and of
one where some of what was measured of other data (running variances) are those of data that were constant.

For candidates that pack some of them, `of_packed` has numbers of its own.
"""
_PURPOSES = 9
_NUMBER = re.compile(r"\d+")


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
        self._shown = shown
        self._hidden: dict[int, Parameters] = {}
        self._taken = 0
        self._packed: list[frozenset[int]] = [frozenset()]
        self._chosen: frozenset[int] | None = None
        self._enlarged = True
        self.clamped: dict[str, list[float]] = {}
        """Limits of parameters that the reference clamps. On the task's own inputs some values lie beyond them."""
        self.norms: dict[str, list[float]] = {}
        """Limits of norms of parameters, see `Thresholds.found`. Half of the norms lie beyond them."""
        self.known_slopes: list[str] = []
        """Names of parameters that the reference uses as slopes below zero."""
        self.slopes: Literal["all", "known", "none"] = "none"
        """Which parameters are slopes above 1 on the task's own inputs, and below 0 on hidden ones."""
        self.seldom: variation.Seldom | None = None
        """What is rare among them on hidden inputs and in timed calls."""
        self.compares = False
        """The reference compares floating-point numbers, or makes booleans of them."""
        self.vary = False
        """Calls have them: the reference is reliable with others than those that its program makes."""
        self.special: list[int] = []
        """Numbers of those that come in a call each, of `ZERO` and those behind it: the reference bears them."""
        self.confined: dict[int, variation.Confined] = {}
        """By number, those of which the reference bears some values alone."""
        self.crossed = False
        """Then whole numbers in buffers of equal ones become others, too."""
        self.may_be_slopes: frozenset[int] = frozenset()
        """Numbers of those that could be."""
        self.variable: list[int] = []
        """Numbers of the registrations that could get other values."""
        self.drawn: frozenset[int] = frozenset()
        """Of those that get other values, the ones that depend on random draws."""
        self.applicable: list[int] = []
        """Of the numbers that come in a call each, those that are others than `CHECKED`."""

    def learn(self, thresholds: dict[str, Any]) -> None:
        """From now on parameters lie on both sides of the limits that the reference sets them (`Thresholds.found`)."""
        self.clamped, self.norms = thresholds["clamped"], thresholds["norms"]
        self.known_slopes = thresholds["slopes"]
        self.compares = thresholds["relates"]

    @property
    def any(self) -> bool:
        """Whether the model has any that could be others."""
        return self.draws or bool(self.variable)

    @property
    def draws(self) -> bool:
        """Whether the constructor draws any random numbers."""
        return bool(self._shown["draws"])

    @property
    def registers(self) -> bool:
        """Whether the constructor registers any parameter or buffer."""
        return bool(self._shown["tensors"])

    @property
    def has_squares(self) -> bool:
        """Whether any of those that could get other values is a square matrix."""
        return bool(variation.find_squares(self._shown, self.variable))

    @property
    def num_bytes(self) -> int:
        """Memory that the values hold."""
        return sum(values.nbytes for hidden in list(self._hidden.values()) for values in hidden.given.values())

    def strata(self) -> list[list[int]]:
        """The numbers that could get other values, by kind: what is drawn, other parameters, buffers."""
        tensors = self.of(KEYED).report["tensors"]
        parameters = [each for each in self.variable if tensors[each]["kind"] == "parameter"]
        drawn = variation.find_drawn(self._shown, self.of(KEYED).report)
        constant = [each for each in parameters if tensors[each]["origin"] == "constant"]
        computed = [each for each in parameters if each not in drawn and each not in constant]
        buffers = [each for each in self.variable if each not in parameters]
        return [
            group for group in ([each for each in parameters if each in drawn], constant, computed, buffers) if group
        ]

    def by_name(self, numbers: list[int]) -> list[list[int]]:
        """Registrations in groups of those that have one name but for numbers in it, as those of equal layers do."""
        tensors = self.of(KEYED).report["tensors"]
        groups: dict[str, list[int]] = {}
        for number in numbers:
            groups.setdefault(_NUMBER.sub("#", tensors[number]["name"]), []).append(number)
        return list(groups.values())

    def forget(self) -> None:
        """Draw others when they are needed next."""
        self._hidden.clear()
        self._packed = [frozenset()]
        self._taken = -2

    def choose(self, numbers: frozenset[int], enlarged: bool) -> None:
        """From now on give other values to these registrations, and a size that matters to what is tiny."""
        self._chosen, self._enlarged = numbers, enlarged
        self.draw()

    def draw(self) -> None:
        """Draw all sets of hidden parameters."""
        self.forget()
        self._hidden[KEYED] = Parameters(f"{self._seeds.of(Draw(0), 'parameters')}", {}, {})
        self.take(KEYED)
        report = self._hidden[KEYED].report
        drawn = variation.find_drawn(self._shown, report)
        self.variable = variation.find_variable(report, drawn)
        chosen = [each for each in self.variable if self._chosen is None or each in self._chosen]
        self.drawn = drawn & set(chosen)
        read = self._own.process.tensor
        self.may_be_slopes = variation.find_slopes(report, read, chosen, self.known_slopes)
        for number in (CHECKED, REDRAWN, TIMED):
            seed = self._seeds.of(Draw(number), "parameters")
            enlarged = self._enlarged and number != REDRAWN  # hidden inputs and large values are too much for some
            clamped = self.clamped if number == CHECKED else {}
            slopes = self._slopes(report, "falling" if number == REDRAWN else "steep") if number != TIMED else {}
            rare = number != CHECKED
            seldom, crossed = (self.seldom, self.crossed) if rare else (None, False)
            about = enlarged, clamped, self.norms, slopes, seldom, crossed, self.confined
            given = variation.vary(report, read, chosen, drawn, seed, *about)
            self._hidden[number] = Parameters(f"{seed}", given, {})
        initial = {each: read(report["tensors"][each]) for each in chosen}
        self._hidden[INITIAL] = Parameters(self._hidden[KEYED].hidden, initial, {})
        checked = self._hidden[CHECKED]
        single = [each for each in chosen if variation.is_number(report["tensors"][each]) and bool(initial[each])]
        zeros = {each: torch.zeros_like(initial[each]) for each in single}
        self._hidden[ZERO] = Parameters(checked.hidden, checked.given | zeros, {})
        free = [each for each in chosen if each not in self.confined]
        sided = variation.one_sided(report, read, free, self._seeds.of(Draw(SIDED), "parameters"))
        self._hidden[SIDED] = Parameters(checked.hidden, checked.given | sided, {})
        opposite = {each: -values for each, values in sided.items()}
        self._hidden[OPPOSITE] = Parameters(checked.hidden, checked.given | opposite, {})
        faint = variation.faint(checked.given, [each for each in free if each in drawn and each in checked.given])
        self._hidden[FAINT] = Parameters(checked.hidden, checked.given | faint, {})
        buffers = [each for each in free if report["tensors"][each]["kind"] == "buffer"]
        constant = variation.vanishing(checked.given, buffers, self._seeds.of(Draw(CONSTANT), "parameters"))
        self._hidden[CONSTANT] = Parameters(checked.hidden, checked.given | constant, {})
        groups = (zeros, [ZERO]), (sided, [SIDED, OPPOSITE]), (faint, [FAINT]), (constant, [CONSTANT])
        self.applicable = [number for others, numbers in groups if others for number in numbers]

    def _slopes(self, report: dict[str, Any], kind: variation.Slope) -> dict[int, variation.Slope]:
        if self.slopes == "none":
            return {}
        tensors = report["tensors"]
        every = self.slopes == "all"
        return {each: kind for each in self.may_be_slopes if every or tensors[each]["name"] in self.known_slopes}

    def number(self, purpose: int, packed: frozenset[int] = frozenset()) -> int:
        """Number of the parameters of calls for that purpose; 0: they have those that the program makes.

        Args:
            purpose: `CHECKED` or another one of these.
            packed: numbers of the registrations that the candidate holds in a form of its own.
        """
        return self.of_packed(purpose, packed) if self.vary else 0

    def of_packed(self, number: int, packed: frozenset[int]) -> int:
        """Number of the parameters of which these have the values of their draws."""
        if packed not in self._packed:
            self._packed.append(packed)
        return number + _PURPOSES * self._packed.index(packed)

    def take(self, number: int) -> None:
        """Have the process construct its model with these parameters, unless it has them."""
        if number == self._taken:
            return
        if number and not self._hidden:
            self.draw()
        if number > _PURPOSES and number not in self._hidden:
            self._hidden[number] = self._without(number)
        self._taken = -2  # none, if the constructor fails
        reply = self.construct(self._own.ask, number)
        if number:
            self._hidden[number] = replace(self._hidden[number], report=reply["parameters"])
        self._taken = number

    def _without(self, number: int) -> Parameters:
        """Hidden parameters of which the packed ones have the values of their draws, and of nothing else."""
        packed = self._packed[(number - 1) // _PURPOSES]
        hidden = self._hidden[(number - 1) % _PURPOSES + 1]
        given = {each: values for each, values in hidden.given.items() if each not in packed}
        if self.drawn - packed:  # of which the constructor might make the packed ones
            constant = {each: values for each, values in given.items() if each not in self.drawn}
            self._taken = -2
            tensors = parameters.construct(self._own.ask, hidden.hidden, constant)["parameters"]["tensors"]
            given |= {each: self._own.process.tensor(tensors[each]) for each in packed}
        return Parameters(hidden.hidden, given, {})

    def construct(self, ask: Callable[..., dict[str, Any]], number: int) -> dict[str, Any]:
        """Have a process construct its model with these parameters; 0: with those of the program."""
        if number == 0:
            return parameters.construct(ask, None, {})
        return parameters.construct(ask, self._hidden[number].hidden, self._hidden[number].given)

    def of(self, number: int) -> Parameters:
        """Hidden parameters, and what the reference's constructor reports with them."""
        if number not in self._hidden or not self._hidden[number].report:
            self.take(number)
        return self._hidden[number]

    def values(self, number: int, registrations: list[int]) -> list[torch.Tensor]:
        """What the model holds with hidden parameters, by the numbers of its registrations."""
        self.take(number)
        return [self._own.process.tensor(self._hidden[number].report["tensors"][each]) for each in registrations]
