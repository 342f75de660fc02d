"""Whether a training task holds a whole benchmark task among its operators."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import permutations, product

import networkx as nx

from kernelrl.data.decontamination.trace import LEAF, OUTPUT, OperatorGraph

MOST_STEPS = 20_000
"""Pairs of nodes that are compared before a search is given up: graphs of many equal sums have many ways to match."""
Arguments = Mapping[int, Mapping[str, tuple[int, ...]]]


class _GaveUp(Exception):
    pass


def contains(whole: OperatorGraph, part: OperatorGraph) -> bool:
    """Whether the operators of `part` occur in `whole`, with anything in the place of its inputs.

    Of a part with several outputs, that with the most operators has to occur.
    """
    if Counter(_working(part)) - Counter(_working(whole)):
        return False
    search = _Search(whole, part)
    outputs = search.arguments[0]
    roots = outputs.get("") or [node for nodes in outputs.values() for node in nodes]
    below = nx.DiGraph((node, argument) for node, argument, _ in part.edges)
    root = max(roots, key=lambda node: len(nx.descendants(below, node)), default=0)
    try:
        return any(
            label == part.labels[root] and next(search.match(root, node, {}), None) is not None
            for node, label in enumerate(whole.labels)
            if label != OUTPUT
        )
    except _GaveUp:
        return False


def working_labels(graph: OperatorGraph) -> frozenset[str]:
    """The distinct operators of a graph; those of a part are among those of the whole."""
    return frozenset(_working(graph))


def _working(graph: OperatorGraph) -> list[str]:
    return [label for label in graph.labels if label not in (LEAF, OUTPUT)]


class _Search:
    def __init__(self, whole: OperatorGraph, part: OperatorGraph):
        self._whole, self._part = whole, part
        self.arguments = _arguments(part)
        self._others = _arguments(whole)
        self._steps = 0

    def match(self, node: int, other: int, bound: dict[int, int]) -> Iterator[dict[int, int]]:
        """The ways in which what is below a node of the part is what is below a node of the whole."""
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise _GaveUp
        if node in bound:
            if bound[node] == other:
                yield bound
            return
        label = self._part.labels[node]
        if label == LEAF:
            yield bound | {node: other}
            return
        mine, theirs = self.arguments[node], self._others[other]
        if label != self._whole.labels[other] or mine.keys() != theirs.keys():
            return
        if any(len(mine[name]) != len(theirs[name]) for name in mine):
            return
        orders = [[tuple(zip(mine[name], order, strict=True)) for order in permutations(theirs[name])] for name in mine]
        for choice in product(*orders):
            pairs = [pair for some in choice for pair in some]
            yield from self._match_all(pairs, bound | {node: other})

    def _match_all(self, pairs: list[tuple[int, int]], bound: dict[int, int]) -> Iterator[dict[int, int]]:
        if not pairs:
            yield bound
            return
        for each in self.match(*pairs[0], bound):
            yield from self._match_all(pairs[1:], each)


@lru_cache(maxsize=1 << 12)
def _arguments(graph: OperatorGraph) -> Arguments:
    """By node and name of the argument: those that a node has of that name; several where their order is free."""
    found: defaultdict[int, defaultdict[str, tuple[int, ...]]] = defaultdict(lambda: defaultdict(tuple))
    for node, argument, name in graph.edges:
        found[node][name] += (argument,)
    return {node: dict(found[node]) for node in range(len(graph.labels))}
