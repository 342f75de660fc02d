"""The outputs of one call: read while the process is frozen, held against rules and against what is expected."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import torch

from kernelrl.executor import trees
from kernelrl.executor.building.compilers import shorten
from kernelrl.executor.judging import compare
from kernelrl.executor.judging.arena import Case, num_bytes_of, overlapping
from kernelrl.executor.judging.candidate_process import CandidateProcess
from kernelrl.executor.judging.endings import Ended
from kernelrl.executor.processes.failures import ProcessFailure
from kernelrl.executor.processes.process import nothing
from kernelrl.verdict import TrialError


class Outputs:
    """Reads and judges the outputs of a candidate's calls.

    Args:
        own: the candidate's process.
    """

    def __init__(self, own: CandidateProcess):
        self._own = own
        self._arena = own.arena
        self._reference, self._found, self._cores = own.reference, own.found, own.cores
        self._before: list[list[tuple[int, int]]] = []  # on a GPU, of the last two calls: address and number of bytes
        self.unfilled = False
        """The last call's outputs lay where it found zeros, and they say nothing of what it wrote."""

    def forget(self) -> None:
        """The memory of the calls before may be used again."""
        self._before.clear()

    def examine(self, reply: dict[str, Any], case: Case) -> Callable[[], None]:
        """After one call, with the process frozen: read the outputs and see which rules it broke.

        Returns:
            The comparison of the values that were read, which needs the process no more.
        """
        found = self._found
        trial = found.trials
        found.trials += 1
        if "failed" in reply:
            message = shorten(str(reply.get("message", "")))
            found.errors.append(TrialError(trial=trial, kind="exception", inputs=case.inputs, message=message))
            raise Ended("runtime_error", f"The kernel raised an exception: {message}")
        described = _as_list(reply.get("tensors"))
        try:
            readable = _as_list(self._arena.outputs(reply, self._own.ask))
        except ProcessFailure as error:
            raise self._own.broke_off(error, "after it ran") from None
        outputs, errors = self._read(case, reply.get("done"), described, readable, trial)
        found.errors.extend(errors)
        outputs += self._changed_inputs(case)
        if not self._reference.habits.returns_input and all(case.shape.fresh):
            for item in described:
                if isinstance(item, dict) and self._arena.owns(item.get("pointer")):
                    raise self._own.violation("output_aliases_input", "an output lies in the memory of an input")

        def compare_values() -> None:
            if case.is_native(outputs):
                return
            if case.near:
                with self._cores.working():
                    if all(near.accepts(output) for near, output in zip(case.near, outputs, strict=True)):
                        return
            if (all_expected := self._expected(case)) is None:
                return
            for expected, output in zip(all_expected, compare.in_order_of(all_expected, outputs), strict=True):
                if not expected.accepts(output):
                    found.errors.append(expected.mismatch(trial, case.inputs, output))

        self.unfilled = False
        if errors:
            self.forget()
            return nothing
        if (reused := self._reused(case, described)) is None:
            fresh = [item for item, fresh in zip(described, case.shape.fresh, strict=True) if fresh]
            self.unfilled = self._arena.lay_unfilled(fresh)
            return compare_values

        def compare_and_blame() -> None:
            compare_values()
            if not found.errors:  # of what is wrong, that is all there is to say
                raise self._own.violation("output_reused", reused)

        return compare_and_blame

    def accepted(self, case: Case) -> bool:
        """Whether a call gives the expected outputs. Nothing is judged by it."""
        reply = self._own.call(case, {"do": "run"}, nothing)
        described, readable = _as_list(reply.get("tensors")), _as_list(self._arena.outputs(reply, self._own.ask))
        outputs, errors = self._read(case, reply.get("done"), described, readable, 0)
        return not errors and compare.all_accepted(self._expected(case) or [], outputs)

    def _expected(self, case: Case) -> list[compare.Expected] | None:
        if case.expected is not None:
            return case.expected
        with self._cores.holding(self._reference.lock):
            return self._reference.settle(case)

    def _changed_inputs(self, case: Case) -> list[torch.Tensor]:
        """What the call has made of the inputs that the reference changes. The others are as they were written."""
        changed = self._arena.changed(case.image, case.shape.layout)
        if any(index not in case.changed for index in changed):
            raise self._own.violation("input_mutated", "forward changed an input that the reference does not change")
        inputs = self._arena.inputs(case.shape.layout) if case.changed else []
        return [inputs[index] for index in case.changed]

    def _reused(self, case: Case, described: list[dict[str, Any]]) -> str | None:
        """What shows that an output was not made in this call, or not by itself; None: nothing does."""
        if self._own.settings.device == "cuda":
            if (
                self._reference.habits.reuses_outputs
                or self._reference.habits.returns_input
                or not self._reuses(case, described)
            ):
                return None
            return "an output lies in the memory of an earlier call's"
        for index, (item, fresh) in enumerate(zip(described, case.shape.fresh, strict=True)):
            if fresh and num_bytes_of(item) and not self._arena.is_of_the_call(item):
                return f"output {index} does not lie in memory that was allocated during the call"
        for first, second in overlapping(described) - case.shape.shared:
            return f"outputs {first} and {second} share memory"
        return None

    def _reuses(self, case: Case, described: list[dict[str, Any]]) -> bool:
        """Whether an output lies where one of the two calls before lies: the contestant's process still holds those."""
        outputs = [(item["pointer"], num_bytes_of(item)) for item in described]
        before = list(chain.from_iterable(self._before))
        self._before = [*self._before[-1:], outputs]
        return any(
            num_bytes and pointer < earlier + earlier_bytes and earlier < pointer + num_bytes
            for pointer, num_bytes in outputs
            for earlier, earlier_bytes in before
        )

    def _read(
        self, case: Case, form: Any, described: list[Any], readable: list[Any], trial: int
    ) -> tuple[list[torch.Tensor], list[TrialError]]:
        """Copies of outputs, and what is wrong with their form; only where nothing is, all outputs are there."""
        try:
            has_form = len(described) == len(case.outputs) and trees.outline(form) == case.shape.form
        except ValueError:
            has_form = False
        if not has_form:
            message = f"forward returned {len(described)} tensors in another structure, expected {len(case.outputs)}"
            if len(described) == len(case.outputs):
                message = "forward returned its outputs in another structure, with other keys or with another text"
            return [], [TrialError(trial=trial, kind="count", inputs=case.inputs, message=message)]
        outputs, errors = [], []
        own: list[torch.Tensor | None] = [*case.native] or [None] * len(described)
        for index, (native, item) in enumerate(zip(case.outputs, described, strict=True)):
            orders = self._orders(index, native)
            error = compare.form_error(trial, case.inputs, index, native, item, orders)
            if error is None:
                try:
                    at = item | {"pointer": readable[index]["pointer"]}
                    output = self._arena.tensor(self._own.process, at, own[index])
                    if output.dtype == torch.bool and bool((output.view(torch.uint8) > 1).any()):
                        raise ValueError("a boolean is neither 0 nor 1")
                    outputs.append(output)
                except (ValueError, TypeError, LookupError) as unreadable:
                    message = f"output {index}: {unreadable}"
                    error = TrialError(trial=trial, kind="layout", inputs=case.inputs, message=message)
            if error is not None:
                errors.append(error)
        return outputs, errors

    def _orders(self, index: int, native: dict[str, Any]) -> list[list[int]] | None:
        """Strides in whose order of dimensions an output may lie; None: in any."""
        habits = self._reference.habits
        if not habits.lays_out:
            return None
        is_laid_out = index < len(habits.laid_out) and habits.laid_out[index]
        return [native["stride"]] if is_laid_out else [compare.contiguous(native["shape"]), native["stride"]]


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
