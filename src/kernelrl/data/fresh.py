"""Draws in place of tensors that a program writes out: the same shape and dtype, other values in the same range.

What is kept of the values is what an operator may rely on: their range (indices stay in bounds, logarithms stay real),
a permutation, a triangular or a symmetric matrix, and a positive definite one.
"""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

_DTYPES = {"b": "torch.bool", "i": "torch.int64", "f": "torch.float32", "c": "torch.complex64"}
_FILLED = {"torch.zeros", "torch.ones"}


class DrawFresh(ast.NodeTransformer):
    """Replaces `torch.tensor(LITERAL)`, `torch.zeros(…)`, `torch.ones(…)`, `torch.eye(n)` and `torch.linspace(…)`.

    A tensor that leaves nothing to draw (an integer, twice the same one, no element) stays as it is.
    """

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        name = ast.unparse(node.func)
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        match name, node.args:
            case "torch.tensor", [values] if set(keywords) <= {"dtype", "requires_grad"}:
                text = _draw(values, ast.unparse(keywords["dtype"]) if "dtype" in keywords else None)
            case _ if name in _FILLED:
                text = f"torch.rand({', '.join(map(ast.unparse, [*node.args, *node.keywords]))})"
            case "torch.eye", [size] if not keywords:
                text = f"torch.rand({ast.unparse(size)}, {ast.unparse(size)})"
            case "torch.linspace", [start, end, *steps] if len(steps) + ("steps" in keywords) == 1:
                number = ast.unparse(steps[0] if steps else keywords["steps"])
                text = f"torch.empty({number}).uniform_({ast.unparse(start)}, {ast.unparse(end)})"
            case _:
                return node
        return node if text is None else ast.parse(text, mode="eval").body


def _draw(node: ast.expr, dtype: str | None) -> str | None:
    """The call that draws what a literal holds; None: there is nothing to draw, or it is no regular array."""
    try:
        values = np.array(ast.literal_eval(node))
    except (ValueError, TypeError):
        return None
    kind = _kind(values, dtype)
    if kind is None or not values.size:
        return None
    shape, dtype = list(values.shape), dtype or _DTYPES[kind]
    if kind == "b":
        return f"(torch.rand({shape}) < 0.5)"
    if kind == "c":
        return f"torch.randn({shape}, dtype={dtype})"
    if kind == "i":
        return _draw_integers(values, shape, dtype)
    return f"{_draw_reals(values.astype(float), shape)}.to({dtype})"


def _kind(values: np.ndarray[Any, Any], dtype: str | None) -> str | None:
    """`b`, `i`, `f` or `c`: what the dtype says, else the values."""
    if values.dtype.kind not in _DTYPES:
        return None
    if dtype is None:
        return str(values.dtype.kind)
    name = dtype.rpartition(".")[2]
    kinds = {"b": name == "bool", "c": "complex" in name, "i": "int" in name or name == "long"}
    return next((kind for kind, fits in kinds.items() if fits), "f")


def _draw_integers(values: np.ndarray[Any, Any], shape: list[int], dtype: str) -> str | None:
    low, high = int(values.min()), int(values.max())
    if values.ndim == 1 and high > 0 and sorted(values.tolist()) == list(range(len(values))):
        return f"torch.randperm({len(values)}, dtype={dtype})"
    low = min(low, 1) if low == high else low
    return None if low == high else f"torch.randint({low}, {high + 1}, {shape}, dtype={dtype})"


def _draw_reals(values: np.ndarray[Any, Any], shape: list[int]) -> str:
    nonzero = values[values != 0]
    square = values.ndim >= 2 and values.shape[-1] == values.shape[-2] > 1
    flipped = np.swapaxes(values, -1, -2) if square else values
    if square and np.array_equal(values, flipped):
        if (np.linalg.eigvalsh(values) > 0).all():
            return f"(lambda x: x @ x.mT + torch.eye({shape[-1]}))(torch.rand({shape}))"
        return f"(lambda x: (x + x.mT) / 2)(torch.empty({shape}).uniform_({_uniform(values)}))"
    for triangle in ("tril", "triu"):
        if square and nonzero.size and np.array_equal(values, getattr(np, triangle)(values)):
            return f"torch.empty({shape}).uniform_({_uniform(nonzero)}).{triangle}()"
    return f"torch.empty({shape}).uniform_({_uniform(values)})"


def _uniform(values: np.ndarray[Any, Any]) -> str:
    """The range to draw from: that of the values; around one that stands alone."""
    low, high = float(values.min()), float(values.max())
    if low == high:
        low, high = sorted((0.5 * low, 1.5 * low)) if low else (-1.0, 1.0)
    return f"{low}, {high}"
