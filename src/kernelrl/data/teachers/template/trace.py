"""A task's program as a graph of core operators between the tensors that `ModelNew` has."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.fx import Graph
from torch.utils._pytree import tree_leaves

from kernelrl.data import tracing
from kernelrl.task import Task


@dataclass(frozen=True)
class Traced:
    """The graph, and how `ModelNew` names its arguments.

    Attributes:
        names: Python expression of each placeholder in `forward`, in order, e.g. `self.linear.weight`, `x`.
        single: `forward` returns a tensor rather than a tuple of them.
    """

    graph: Graph
    names: list[str]
    single: bool


class TraceError(Exception):
    """The program is no graph of operators on tensors."""


def trace(task: Task, arguments: list[str]) -> Traced:
    """Trace `Model.forward`, with the lengths of the task's `SHAPE_RANGES` as symbols. Tasks are trusted.

    Args:
        arguments: names of `forward`'s arguments.

    Raises:
        TraceError: it does not run so, or returns other things than tensors.
    """
    try:
        traced = tracing.trace(task.source, task.shape_ranges)
    except Exception as error:  # tracing fails in as many ways as programs do
        raise TraceError(f"{type(error).__name__}: {error}") from None
    if traced.guarded:
        raise TraceError(f"it depends on the values of {', '.join(task.shape_ranges)}")
    if len(traced.inputs) != len(arguments) or not all(isinstance(each, torch.Tensor) for each in traced.inputs):
        raise TraceError("its inputs are not all tensors")
    if not all(isinstance(leaf, torch.fx.Node) for leaf in tree_leaves(traced.graph.output_node().args[0])):
        raise TraceError("it returns what is no tensor")
    names = [tracing.attribute(name) for name in traced.weights] + arguments
    return Traced(traced.graph, names, isinstance(traced.returned, torch.Tensor))
