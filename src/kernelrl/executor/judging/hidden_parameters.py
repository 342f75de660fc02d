"""The candidate's model with hidden parameters, the same as the reference's."""

from __future__ import annotations

from typing import Any

from kernelrl.executor.judging import parameters
from kernelrl.executor.judging.arena import Case, Draw
from kernelrl.executor.judging.candidate_process import CandidateProcess
from kernelrl.executor.judging.outputs import Outputs
from kernelrl.executor.judging.parameters import Match
from kernelrl.executor.judging.reference_parameters import CHECKED, KEYED


class HiddenParameters:
    """Which of the hidden parameters a candidate's model has.

    Args:
        own: the candidate's process.
        outputs: of its calls.
    """

    def __init__(self, own: CandidateProcess, outputs: Outputs):
        self._own = own
        self._outputs = outputs
        self._constructed = 0  # number of those that its model has
        self._match = Match({}, frozenset(), frozenset())
        self.last = 0
        """Number of those after which the libraries can be closed."""

    @property
    def packed(self) -> frozenset[int]:
        """Numbers of the reference's registrations that the candidate holds in a form of its own."""
        return self._match.packed

    def find(self) -> None:
        """Find out how the candidate holds the reference's parameters, before anything is judged.

        One that registers a parameter's name and draws other values for it than the reference holds it in a form of its
        own, or only initialises it in another way. Then it is right if it is given the reference's, which a call shows.
        """
        own, reference = self._own, self._own.reference
        if not reference.parameters_vary:
            return
        own.check_state()
        with own.cores.holding(reference.lock), own.cores.making_reference():
            keyed = reference.parameters.of(KEYED)
            variable, drawn = reference.parameters.of(CHECKED).given, reference.parameters.drawn
        report = own.construct(keyed.hidden, {})
        self._constructed = KEYED
        own.note_state()
        self._match = found = parameters.match(keyed.report, report, variable, drawn)
        if found.renamed and parameters.draws_the_same(keyed.report, report) and not self._is_right():
            numbers = {number: other for number, other in found.numbers.items() if number not in found.renamed}
            self._match = Match(numbers, frozenset(), found.packed | found.renamed)
        own.found.parameters = "by_name" if self._match.renamed else None

    def _is_right(self) -> bool:
        """Whether it is right on the first inputs, with parameters by name."""
        own, reference = self._own, self._own.reference
        with own.cores.holding(reference.lock), own.cores.making_reference():
            number = reference.parameters.of_packed(CHECKED, self.packed)
            case = reference.case(Draw(0, parameters=number))
        assert case is not None
        self._construct_anew(number, case)
        return self._outputs.accepted(case)

    def take(self, number: int, case: Case) -> None:
        """Have the candidate construct its model with other parameters, and close the libraries after the last ones."""
        if number != self._constructed:
            self._construct_anew(number, case)
        if number == self.last and self._own.closed is None:
            self._own.close_library()

    def _construct_anew(self, number: int, case: Case) -> None:
        """Have the candidate construct its model with the reference's hidden parameters of that number.

        Where it is not sure whether it holds those that nothing but draws decide in a form of its own, a call on the
        case shows.
        """
        own, reference = self._own, self._own.reference
        own.check_state()
        with own.cores.holding(reference.lock), own.cores.making_reference():
            hidden = reference.parameters.of(number)
        numbers = self._match.numbers
        given = {other: hidden.given[each] for each, other in numbers.items()}
        report = own.construct(hidden.hidden, given)
        astray, sure = self._find_astray(hidden.report, report)
        if astray and not sure and own.found.parameters is None and self._outputs.accepted(case):
            astray = {}
        if astray and (sure or own.found.parameters != "keyed"):
            with own.cores.holding(reference.lock), own.cores.making_reference():
                values = reference.parameters.values(number, list(astray.values()))
            own.construct(hidden.hidden, given | dict(zip(astray, values, strict=True)))
            own.found.parameters = "by_name"
        own.found.parameters = own.found.parameters or "keyed"
        self._constructed = number
        self._outputs.forget()
        own.note_state()

    def _find_astray(self, reference: dict[str, Any], candidate: Any) -> tuple[dict[int, int], bool]:
        numbers = self._match.numbers
        return parameters.find_astray(reference, candidate, numbers.keys() | self.packed, numbers.values())
