"""The candidate's model with hidden parameters, the same as the reference's."""

from __future__ import annotations

from kernelrl.executor.judging import parameters
from kernelrl.executor.judging.arena import Case
from kernelrl.executor.judging.candidate_process import CandidateProcess
from kernelrl.executor.judging.outputs import Outputs


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
        self.last = 0
        """Number of those after which the libraries can be closed."""

    def take(self, number: int, case: Case) -> None:
        """Have the candidate construct its model with other parameters, and close the libraries after the last ones."""
        if number != self._constructed:
            self._construct_anew(number, case)
        if number == self.last and self._own.closed is None:
            self._own.close_library()

    def _construct_anew(self, number: int, case: Case) -> None:
        """Have the candidate construct its model with the reference's hidden parameters of that number.

        Where it is not sure whether it holds them in a form of its own, a call on the case shows.
        """
        own, reference = self._own, self._own.reference
        own.check_state()
        with own.cores.holding(reference.lock), own.cores.making_reference():
            hidden = reference.parameters.of(number)
        given = parameters.match_given(reference.parameters.shown, hidden.given, own.report)
        report = own.construct(hidden.hidden, given)
        astray, sure = parameters.find_astray(hidden.report, report)
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
