"""What every program that does a task must do in a call, as far as its reference tells."""

from __future__ import annotations

from dataclasses import dataclass

from kernelrl.errors import TaskError
from kernelrl.executor.judging.arena import Draw, Shape, num_bytes_of
from kernelrl.executor.judging.reference_process import ReferenceProcess
from kernelrl.executor.judging.seeds import Seeds

DEMAND_S = 1.0
"""Processor time for finding out what the outputs depend on (in seconds)."""


@dataclass(frozen=True)
class Demand:
    """What every program that does a task must do in a call."""

    read: int
    """Memory of inputs and parameters on which the outputs depend (in bytes)."""
    written: int
    """Memory of outputs (in bytes)."""
    flops: int
    """Operations on floating-point numbers that cannot be spared; 0: not known."""


def find_demand(own: ReferenceProcess, shape: Shape, seeds: Seeds, parameters_vary: bool, changes_more: bool) -> Demand:
    """What every program must read, write and compute in a call.

    Args:
        own: the reference's process.
        shape: that the task shows.
        seeds: of the inputs.
        parameters_vary: the outputs depend on parameters, too.
        changes_more: a call more would be seen.
    """
    made = [item for item, fresh in zip(shape.native, shape.fresh, strict=True) if fresh]
    written = 0 if shape.shared else sum(map(num_bytes_of, made))
    if changes_more:
        return Demand(0, written, 0)
    question = {"do": "demand", "seeds": [seeds.of(Draw(index)) for index in range(3)]}
    try:
        reply = own.examine(question | {"parameters": parameters_vary, "budget_s": DEMAND_S})
    except TaskError:  # it takes several times the memory of a call
        if not own.process.alive:
            raise
        return Demand(0, written, 0)
    return Demand(reply["read"], written, reply["flops"])
