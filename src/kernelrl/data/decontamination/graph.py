"""Operator graphs compared: a canonical hash by Weisfeiler-Lehman refinement, confirmed as isomorphism.

Equal hashes are necessary for isomorphic graphs (Shervashidze et al., JMLR 2011); networkx then finds the isomorphism.
"""

from __future__ import annotations

import warnings
from functools import lru_cache

import networkx as nx
from networkx.algorithms.isomorphism import categorical_edge_match, categorical_node_match

from kernelrl.data.decontamination.trace import OperatorGraph

warnings.filterwarnings("ignore", message="The hashes produced for directed graphs", category=UserWarning)
ITERATIONS = 6
"""Rounds of refinement: nodes that far apart see each other in the hash."""


def canonical_hash(graph: OperatorGraph, sizes: bool) -> str:
    """Hash (hex) that isomorphic graphs share.

    Args:
        sizes: shapes, dtypes and numbers have to agree too.
    """
    return str(nx.weisfeiler_lehman_graph_hash(_to_networkx(graph, sizes), "argument", "operator", ITERATIONS))


@lru_cache(maxsize=1 << 12)
def is_isomorphic(a: OperatorGraph, b: OperatorGraph, sizes: bool) -> bool:
    """Whether there is a one-to-one mapping of nodes that keeps operators and arguments."""
    if (a.labels, a.edges) == (b.labels, b.edges) and (not sizes or a.sizes == b.sizes):
        return True
    first, second = (_coloured(graph, sizes) for graph in (a, b))
    same_colour, same_argument = categorical_node_match("colour", None), categorical_edge_match("argument", None)
    return bool(nx.is_isomorphic(first, second, same_colour, same_argument))


def _coloured(graph: OperatorGraph, sizes: bool) -> nx.DiGraph:
    """With what each node sees of the graph as its colour: the search for a mapping hardly has to go back."""
    result = _to_networkx(graph, sizes)
    seen = nx.weisfeiler_lehman_subgraph_hashes(result, "argument", "operator", ITERATIONS, include_initial_labels=True)
    nx.set_node_attributes(result, {node: tuple(hashes) for node, hashes in seen.items()}, "colour")
    return result


def _to_networkx(graph: OperatorGraph, sizes: bool) -> nx.DiGraph:
    result = nx.DiGraph()
    for number, (label, size) in enumerate(zip(graph.labels, graph.sizes, strict=True)):
        result.add_node(number, operator=f"{label} {size}" if sizes else label)
    arguments: dict[tuple[int, int], list[str]] = {}
    for node, argument, name in graph.edges:
        arguments.setdefault((node, argument), []).append(name)
    for (node, argument), names in arguments.items():
        result.add_edge(node, argument, argument=",".join(sorted(names)))
    return result
