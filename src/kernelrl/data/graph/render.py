"""A graph as a program in KernelBench's format."""

from __future__ import annotations

from collections.abc import Mapping

from kernelrl.data.graph.graph import Dim, Graph
from kernelrl.task import SHAPE_RANGES


def render(graph: Graph, lengths: Mapping[str, int], limits: tuple[int, int] | None) -> str:
    """The program.

    Args:
        lengths: those that the program names.
        limits: the smallest and the largest value that `N`, the length of the first axis, may take; None: no other.
    """
    ranges = f'{SHAPE_RANGES} = {{"{Dim.name}": {limits}}}\n' if limits else ""
    body = "".join(f"        {line}\n" for line in graph.lines)
    outputs = ", ".join(map(str, graph.outputs))
    draws = ",\n        ".join(graph.inputs.values())
    return f"""\
import torch
import torch.nn.functional as F
from torch import nn

{", ".join(lengths)} = {", ".join(map(str, lengths.values()))}
{ranges}

class Model(nn.Module):
{_init(graph)}    def forward(self, {", ".join(graph.inputs)}):
{body}        return {outputs}


def get_inputs():
    return [
        {draws},
    ]


def get_init_inputs():
    return [{", ".join(map(str, graph.sizes.values()))}]
"""


def _init(graph: Graph) -> str:
    if not graph.members:
        return ""
    members = "".join(f"        {line}\n" for line in graph.members)
    return f"    def __init__({', '.join(['self', *graph.sizes])}):\n        super().__init__()\n{members}\n"
