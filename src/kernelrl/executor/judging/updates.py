"""What a call makes of a model's own parameters and buffers: running statistics, counters.

The reference's are read after the first call of a model that was just constructed, and so are a candidate's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kernelrl.executor.judging import compare
from kernelrl.executor.judging.reference_process import ReferenceProcess
from kernelrl.executor.processes.process import Process
from kernelrl.verdict import TrialError

Updates = dict[str, tuple[dict[str, Any], compare.Expected]]
"""By name: the description of what the reference changes, and what it becomes."""


def find_updates(own: ReferenceProcess, call: Callable[[], object]) -> Updates:
    """What a call changes of what the reference registers, within the tolerance of an output.

    Args:
        own: a process whose model has not been called yet.
        call: calls it.
    """
    before = _values(own)
    call()
    found: Updates = {}
    for name, (described, values) in _values(own).items():
        if name not in before or not torch.equal(before[name][1], values):
            expected = compare.Expected.around(values, values, described["dtype"], own.task, scaled=False)
            found[name] = described, expected
    return found


def _values(own: ReferenceProcess) -> dict[str, tuple[dict[str, Any], torch.Tensor]]:
    registered = own.ask({"do": "registered"})["registered"]
    return {each["name"]: (each, own.process.tensor(each).clone()) for each in registered}


def compare_updates(
    process: Process, registered: Any, updates: Updates, trial: int, inputs: str
) -> tuple[bool, list[TrialError]]:
    """Whether a candidate registers any of that in the same form, and what its first call has made wrong of it.

    Args:
        process: the candidate's.
        registered: what it says of its parameters and buffers: hostile data.
        updates: the reference's.
        trial: number of the call.
        inputs: of the call, for people.
    """
    known, errors = False, list[TrialError]()
    for each in registered if isinstance(registered, list) else []:
        name = each.get("name") if isinstance(each, dict) else None
        if not isinstance(name, str) or name not in updates:
            continue
        described, expected = updates[name]
        if compare.form_error(trial, inputs, 0, described, each) is not None:
            continue
        known = True
        try:
            values = process.tensor(each)
        except ValueError as unreadable:
            errors.append(TrialError(trial=trial, kind="layout", inputs=inputs, message=f"{name}: {unreadable}"))
            continue
        if not expected.accepts(values):
            error = expected.mismatch(trial, inputs, values)
            errors.append(error.model_copy(update={"message": f"{name} after the call: {error.message}"}))
    return known, errors
