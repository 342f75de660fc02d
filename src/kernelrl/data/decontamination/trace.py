"""The operator graph of a task: what its model does to its inputs, whatever way it is written.

It is made from the traced program (`data/tracing.py`), so that parameters, buffers and inputs are all leaves, and
`nn.Linear` is `F.linear` with its weight as an argument. Results that nothing needs are left out, and equal nodes are
one.

Also left out, because they do no work: views (reshape, squeeze, slices of everything, …), copies, and constants, which
are folded. Not seen: the branch that was not taken, and two formulas of one function, where their core operators differ
(`torch.square(x)` and `x * x`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.utils._pytree import tree_leaves

from kernelrl.data import tracing

LEAF = "leaf"
OUTPUT = "output"
_COPIES = {"clone", "detach", "alias", "lift_fresh_copy", "view", "_unsafe_view", "unsqueeze", "squeeze"}
"""Operators whose result has the elements of their argument in the same order."""
_COMMUTATIVE = set("add mul maximum minimum eq ne logical_and logical_or bitwise_and bitwise_or".split())
_MATMULS = {"mm", "bmm", "mv", "dot"}
_BIASED_MATMULS = {"addmm", "baddbmm", "addmv"}
_DIMS = {"dim", "dims"}
_BOUNDS = {"min", "max"}
_DECISIVE = {"pow": "exponent", "norm": "p", "linalg_vector_norm": "ord"}
"""Numbers without which an operator is another one."""


@dataclass(frozen=True)
class OperatorGraph:
    """What a model computes. Node 0 is the output; edges lead from a node to its arguments.

    Attributes:
        labels: of each node: the operator and what of its arguments decides what it does.
        sizes: of each node: its shape, dtype and numbers.
        edges: (node, argument, which argument it is).
        operators: those that do work, as the program calls them: a SiLU is one, though it is a sigmoid and a product.
    """

    labels: tuple[str, ...]
    sizes: tuple[str, ...]
    edges: tuple[tuple[int, int, str], ...]
    operators: int

    @property
    def has_operators(self) -> bool:
        """Whether there is anything between the inputs and the output, views included."""
        return any(label not in (LEAF, OUTPUT) for label in self.labels)


def trace(source: str) -> OperatorGraph:
    """Trace a KernelBench-format program. It is executed: call this in a worker process only.

    Raises:
        Exception: whatever the program raises on real tensors.
    """
    try:
        traced = tracing.trace(source)
    except Exception:  # data-dependent shapes or branches, an operator that needs data
        traced = tracing.trace(source, on_values=True)
    return _Reader().read(traced.graph)


@dataclass(frozen=True)
class _Node:
    label: str
    size: str
    arguments: tuple[tuple[int, str], ...]


class _Reader:
    """Makes nodes of a traced program. Equal nodes are one (common subexpressions), except random ones."""

    def __init__(self) -> None:
        self._nodes: list[_Node] = []
        self._known: dict[_Node, int] = {}
        self._of: dict[Node, tuple[int, str]] = {}  # the node of a result, and which of the node's results it is
        self._constants: set[int] = set()
        self._calls: dict[int, int | str] = {}  # by node that does work: the call that it is a part of

    def read(self, graph: Graph) -> OperatorGraph:
        """The nodes that the outputs need, renumbered from the output on."""
        written = []
        for node in graph.nodes:
            if node.op == "placeholder":
                self._of[node] = self._add(_Node(LEAF, _size([node.meta.get("val")]), ()), is_new=True), ""
            elif node.op == "get_attr":
                self._add_constant(node)
            elif node.op == "call_function" and str(node.target).startswith("aten.copy_."):
                written.append(node.args[1])  # an input or a buffer is written
            elif node.op == "call_function":
                self._read_call(node)
        returned = [it for it in tree_leaves(graph.output_node().args[0]) if isinstance(it, Node)]
        arguments = tuple(sorted(self._of[it] for it in returned or written if it in self._of))
        return self._reachable(self._add(_Node(OUTPUT, "", arguments)))

    def _reachable(self, output: int) -> OperatorGraph:
        order: dict[int, int] = {}
        stack = [output]
        while stack:
            index = stack.pop()
            if index not in order:
                order[index] = len(order)
                stack += [argument for argument, _ in self._nodes[index].arguments]
        nodes = [self._nodes[index] for index in order]
        calls = [self._calls[index] for index in sorted(order) if index in self._calls]
        return OperatorGraph(
            labels=tuple(node.label for node in nodes),
            sizes=tuple(node.size for node in nodes),
            edges=tuple((number, order[it], name) for number, node in enumerate(nodes) for it, name in node.arguments),
            operators=sum(1 for _ in groupby(calls)),
        )

    def _read_call(self, node: Node) -> None:
        if str(node.target) == "<built-in function getitem>":
            source, which = node.args
            assert isinstance(source, Node)
            index, _ = self._of[source]
            self._of[node] = index, f".{which}" if which else ""
            return
        outputs = [leaf for leaf in tree_leaves(node.meta.get("val")) if isinstance(leaf, torch.Tensor)]
        if not outputs or not isinstance(node.target, torch._ops.OpOverload):
            return  # a length, or a number that was read from a tensor
        op = node.target._schema.name.partition("::")[2]
        bound = _bind(node)
        operands = list(_operands(bound))
        is_random = torch.Tag.nondeterministic_seeded in node.target.tags
        source = bound["src"] if op == "copy" else _unchanged(op, bound, outputs[0])
        if isinstance(source, Node):
            self._of[node] = self._of[source]
        elif all(self._of[it][0] in self._constants for _, it in operands) and not is_random:
            self._add_constant(node)
        else:
            index = self._add_operator(op, bound, operands, outputs, is_random)
            self._of[node] = index, ""
            is_view = any(it.alias_info and not it.alias_info.is_write for it in node.target._schema.returns)
            if not is_view and op != "_to_copy":
                call = str(node.meta.get("original_aten") or node.target)
                self._calls.setdefault(index, index if call == str(node.target) else call)

    def _add_operator(
        self, op: str, bound: dict[str, Any], operands: list[tuple[str, Node]], outputs: list[Any], is_new: bool
    ) -> int:
        named = [(name, *self._of[it], _broadcast(it.meta["val"].shape, outputs[0].shape)) for name, it in operands]
        size = f"{_size(outputs)} {_numbers(bound)}"
        factors = named[1:] if op in _BIASED_MATMULS else named
        if op in _MATMULS | _BIASED_MATMULS:
            product = self._add(_Node("matmul", size, tuple((it[1], f"{k}{it[2]}") for k, it in enumerate(factors))))
            if factors is named:
                return product
            _, bias, which, pattern = named[0]
            return self._add(_Node("add", size, tuple(sorted([(product, ""), (bias, f"{which}{pattern}")]))))
        if op in _COMMUTATIVE:
            arguments = tuple(sorted((it, f"{which}{pattern}") for _, it, which, pattern in named))
        else:
            arguments = tuple((it, f"{name}{which}{pattern}") for name, it, which, pattern in named)
        return self._add(_Node(_label(op, bound, operands), size, arguments), is_new)

    def _add_constant(self, node: Node) -> None:
        index = self._add(_Node(LEAF, "constant", ()), is_new=True)
        self._constants.add(index)
        self._of[node] = index, ""

    def _add(self, node: _Node, is_new: bool = False) -> int:
        if is_new or node not in self._known:
            self._known[node] = len(self._nodes)
            self._nodes.append(node)
        return self._known[node]


def _bind(node: Node) -> dict[str, Any]:
    """Arguments by name, those left out with their defaults."""
    assert isinstance(node.target, torch._ops.OpOverload)
    bound: dict[str, Any] = {}
    for position, argument in enumerate(node.target._schema.arguments):
        if position < len(node.args):
            bound[argument.name] = node.args[position]
        else:
            bound[argument.name] = node.kwargs.get(argument.name, argument.default_value)
    return bound


def _operands(bound: Mapping[str, Any]) -> Iterator[tuple[str, Node]]:
    for name, value in bound.items():
        if isinstance(value, Node):
            yield name, value
        elif isinstance(value, list | tuple):
            yield from ((f"{name}{k}", it) for k, it in enumerate(value) if isinstance(it, Node))


def _size(values: Sequence[Any]) -> str:
    return str([(tuple(it.shape), str(it.dtype)) if isinstance(it, torch.Tensor) else str(it) for it in values])


def _unchanged(op: str, bound: Mapping[str, Any], output: torch.Tensor) -> Node | None:
    """The argument whose elements the output holds in the same order, or None."""
    source = bound.get("self")
    if not isinstance(source, Node):
        return None
    before = source.meta["val"]
    keeps = op in ("expand", "slice", "_to_copy") or (op in ("mul", "div") and bound["other"] == 1)
    if op in _COPIES or (keeps and (output.shape, output.dtype) == (before.shape, before.dtype)):
        return source
    return source if op == "permute" and not _permutation(bound["dims"]) else None


def _label(op: str, bound: Mapping[str, Any], operands: Sequence[tuple[str, Node]]) -> str:
    """The operator with its dimensions, switches and words; numbers and sizes are left out."""
    if op == "permute":
        return f"permute {_permutation(bound['dims'])}"
    rank = operands[0][1].meta["val"].dim() if operands else 0
    parts = [op]
    if op == "convolution":
        parts += [f"{len(bound['stride'])}d", *(["grouped"] if bound["groups"] != 1 else [])]
    for name, value in bound.items():
        if name in _DIMS and value is not None:
            dims = {it % max(rank, 1) for it in ([value] if isinstance(value, int) else value)}
            pattern = _collapse("r" if dim in dims else "k" for dim in range(rank))
            parts += [pattern] if dims and "k" in pattern else []  # all dimensions are as good as none named
        elif isinstance(value, bool | str) and name != "keepdim" or name == _DECISIVE.get(op):
            parts.append(f"{name}={value}")
        elif name in _BOUNDS and value is not None:
            parts.append(name)
    return " ".join(parts)


def _permutation(dims: Sequence[int]) -> tuple[int, ...]:
    """Where the last dimensions come from, counted from the end; those in front that stay are left out."""
    rank = len(dims)
    order = [dim % rank for dim in dims]
    while order and order[0] == rank - len(order):
        order = order[1:]
    return tuple(dim - rank for dim in order)


def _broadcast(shape: torch.Size, result: torch.Size) -> str:
    """How an operand is spread over the result, whatever their sizes and ranks: `bk` for a row, `kb` for a column."""
    if len(shape) > len(result) or shape == result:
        return ""
    aligned = [None] * (len(result) - len(shape)) + list(shape)
    if any(size not in (None, 1, whole) for size, whole in zip(aligned, result, strict=True)):
        return ""
    pattern = _collapse(
        "b" if size is None or size != whole else "k" for size, whole in zip(aligned, result, strict=True)
    )
    return "" if pattern == "k" else f" {pattern}"


def _collapse(letters: Iterator[str]) -> str:
    return "".join(letter for letter, _ in groupby(letters))


def _numbers(bound: Mapping[str, Any]) -> str:
    """What `_label` leaves out."""
    return str([[it for it in tree_leaves(value) if isinstance(it, int | float)] for value in bound.values()])
