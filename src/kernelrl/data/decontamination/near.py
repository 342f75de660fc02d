"""Near-duplicates: programs that share most of their token shingles, found by MinHash (Broder, 1997) and LSH.

Tokens are those that say what `Model` and its helpers compute: operators, functions, keywords, constants (numbers as a
placeholder), control flow. The program's own names, assignments and the format's boilerplate are left out: with them,
any two short tasks would look alike.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache

import numpy as np
from datasketch import MinHash, MinHashLSH

from kernelrl.data.program import imported_names


def shingles(source: str, length: int) -> frozenset[str]:
    """Runs of `length` tokens.

    Raises:
        SyntaxError, ValueError: the source does not parse.
    """
    words = list(_tokens(ast.parse(source)))
    return frozenset(" ".join(words[k : k + length]) for k in range(max(len(words) - length, 0) + 1))


def signature(shingles: Iterable[str], permutations: int) -> bytes:
    """MinHash signature: `permutations` numbers of 32 bits."""
    minhash = _empty(permutations).copy()
    minhash.update_batch([shingle.encode() for shingle in shingles])
    return np.asarray(minhash.hashvalues, dtype=np.uint32).tobytes()


def jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    """Share of all shingles that both have, from 0 to 1."""
    return len(a & b) / max(len(a | b), 1)


def estimate(a: bytes, b: bytes) -> float:
    """The same, estimated from two signatures: the share of numbers in which they agree."""
    return float(np.mean(np.frombuffer(a, dtype=np.uint32) == np.frombuffer(b, dtype=np.uint32)))


class NearIndex:
    """Signatures to look similar ones up in."""

    def __init__(self, signatures: Iterable[tuple[int, bytes]], threshold: float, permutations: int):
        self._lsh = MinHashLSH(threshold=threshold, num_perm=permutations, weights=(0.2, 0.8))
        self._permutations = permutations
        for number, each in signatures:
            self._lsh.insert(number, self._minhash(each))

    def query(self, signature: bytes) -> list[int]:
        """Numbers of what is probably at least as similar as the threshold."""
        return list(self._lsh.query(self._minhash(signature)))

    def _minhash(self, signature: bytes) -> MinHash:
        minhash = _empty(self._permutations).copy()
        minhash.hashvalues = np.frombuffer(signature, dtype=np.uint32).astype(minhash.hashvalues.dtype)
        return minhash


@cache
def _empty(permutations: int) -> MinHash:
    """Drawing the permutations takes longer than using them: all signatures share one draw."""
    return MinHash(num_perm=permutations, seed=1)


def _tokens(tree: ast.Module) -> Iterator[str]:
    imported = imported_names(tree)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "get_inputs":
            yield from (_draw(it) for it in ast.walk(node) if isinstance(it, ast.Call))
        elif isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name != "get_init_inputs":
            yield from _walk(node, imported)


def _draw(call: ast.Call) -> str:
    """How an input is drawn, with the number of its dimensions and those of size 1: `randn(n, 1)`."""
    sizes = call.args[0].elts if call.args and isinstance(call.args[0], ast.Tuple | ast.List) else call.args
    dimensions = ("1" if isinstance(it, ast.Constant) and it.value == 1 else "n" for it in sizes)
    return f"{ast.unparse(call.func).rpartition('.')[2]}({', '.join(dimensions)})"


def _walk(node: ast.AST, imported: dict[str, str]) -> Iterator[str]:
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Call(func=ast.Name(id="super")):
            return  # a docstring; boilerplate
        case ast.Attribute(value=ast.Name(id="self")):
            return
        case ast.Attribute(attr=name):
            yield name
        case ast.Name(id=name) if name in imported:
            yield imported[name]
        case ast.Constant(value=value):
            yield type(value).__name__ if isinstance(value, int | float) else repr(value)
        case ast.keyword(arg=name):
            yield f"{name}="
        case ast.operator() | ast.cmpop() | ast.unaryop() | ast.If() | ast.For() | ast.While():
            yield type(node).__name__
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr_context | ast.arguments) and not _is_annotation(node, child):
            yield from _walk(child, imported)


def _is_annotation(node: ast.AST, child: ast.AST) -> bool:
    return child is getattr(node, "returns", None) or child is getattr(node, "annotation", None)
