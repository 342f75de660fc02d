"""The operators that synthetic tasks are composed of: each one as a line of PyTorch and as lines of C++.

A composition is a tuple of operator names in order of application. The PyTorch line acts on `x`, a matrix of `M` rows
and `N` columns (float32). The C++ acts on row `r`: `v` is an element inside a loop over `i`, `o` the row of `N` floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Category = Literal["elementwise", "broadcast", "normalisation", "matmul", "reduction", "loss"]
CATEGORIES: tuple[Category, ...] = ("elementwise", "broadcast", "normalisation", "matmul", "reduction", "loss")
"""Ordered: a composition belongs to the last of its operators' categories."""


@dataclass(frozen=True)
class Operator:
    """One operator.

    Attributes:
        category: `elementwise` and `broadcast` act per element, `normalisation` per row; `matmul` may only come first,
            `reduction` and `loss` only last.
        torch: expression in PyTorch.
        cpp: C++ statements; see the module's docstring.
        tensor: second argument as (name, the PyTorch expression that draws it), or None.
    """

    name: str
    category: Category
    torch: str
    cpp: tuple[str, ...]
    tensor: tuple[str, str] | None = None


_OPERATORS = (
    Operator("relu", "elementwise", "torch.relu(x)", ("v = std::max(v, 0.0f);",)),
    Operator("relu6", "elementwise", "F.relu6(x)", ("v = std::min(std::max(v, 0.0f), 6.0f);",)),
    Operator("leaky_relu", "elementwise", "F.leaky_relu(x)", ("v = v > 0.0f ? v : 0.01f * v;",)),
    Operator("elu", "elementwise", "F.elu(x)", ("v = v > 0.0f ? v : std::exp(v) - 1.0f;",)),
    Operator("sigmoid", "elementwise", "torch.sigmoid(x)", ("v = 1.0f / (1.0f + std::exp(-v));",)),
    Operator("tanh", "elementwise", "torch.tanh(x)", ("v = std::tanh(v);",)),
    Operator("silu", "elementwise", "F.silu(x)", ("v = v / (1.0f + std::exp(-v));",)),
    Operator(
        "gelu",
        "elementwise",
        'F.gelu(x, approximate="tanh")',
        ("v = 0.5f * v * (1.0f + std::tanh(0.7978846f * (v + 0.044715f * v * v * v)));",),
    ),
    Operator(
        "softplus",
        "elementwise",
        "F.softplus(x)",
        ("v = std::max(v, 0.0f) + std::log1p(std::exp(-std::abs(v)));",),
    ),
    Operator(
        "hardswish",
        "elementwise",
        "F.hardswish(x)",
        ("v = v * std::min(std::max(v + 3.0f, 0.0f), 6.0f) / 6.0f;",),
    ),
    Operator("softsign", "elementwise", "F.softsign(x)", ("v = v / (1.0f + std::abs(v));",)),
    Operator("tanhshrink", "elementwise", "F.tanhshrink(x)", ("v = v - std::tanh(v);",)),
    Operator("abs", "elementwise", "torch.abs(x)", ("v = std::abs(v);",)),
    Operator("square", "elementwise", "torch.square(x)", ("v = v * v;",)),
    Operator("add_bias", "broadcast", "x + b", ("v = v + B[i];",), ("b", "torch.randn(N)")),
    Operator("mul_gain", "broadcast", "x * g", ("v = v * G[i];",), ("g", "torch.randn(N)")),
    Operator("scale_rows", "broadcast", "x * s", ("v = v * S[r];",), ("s", "torch.randn(M, 1)")),
    Operator("add_residual", "broadcast", "x + y", ("v = v + Y[r * N + i];",), ("y", "torch.randn(M, N)")),
    Operator(
        "softmax",
        "normalisation",
        "torch.softmax(x, dim=1)",
        (
            "float m = o[0], z = 0.0f;",
            "for (int64_t i = 0; i < N; ++i) m = std::max(m, o[i]);",
            "for (int64_t i = 0; i < N; ++i) z += o[i] = std::exp(o[i] - m);",
            "for (int64_t i = 0; i < N; ++i) o[i] /= z;",
        ),
    ),
    Operator(
        "log_softmax",
        "normalisation",
        "torch.log_softmax(x, dim=1)",
        (
            "float m = o[0], z = 0.0f;",
            "for (int64_t i = 0; i < N; ++i) m = std::max(m, o[i]);",
            "for (int64_t i = 0; i < N; ++i) z += std::exp(o[i] - m);",
            "for (int64_t i = 0; i < N; ++i) o[i] -= m + std::log(z);",
        ),
    ),
    Operator(
        "layer_norm",
        "normalisation",
        "F.layer_norm(x, (N,))",
        (
            "float m = 0.0f, q = 0.0f;",
            "for (int64_t i = 0; i < N; ++i) m += o[i] / N;",
            "for (int64_t i = 0; i < N; ++i) q += (o[i] - m) * (o[i] - m) / N;",
            "for (int64_t i = 0; i < N; ++i) o[i] = (o[i] - m) / std::sqrt(q + 1e-5f);",
        ),
    ),
    Operator(
        "rms_norm",
        "normalisation",
        "F.rms_norm(x, (N,), eps=1e-5)",
        (
            "float q = 0.0f;",
            "for (int64_t i = 0; i < N; ++i) q += o[i] * o[i] / N;",
            "for (int64_t i = 0; i < N; ++i) o[i] /= std::sqrt(q + 1e-5f);",
        ),
    ),
    Operator(
        "center",
        "normalisation",
        "x - x.mean(dim=1, keepdim=True)",
        (
            "float m = 0.0f;",
            "for (int64_t i = 0; i < N; ++i) m += o[i] / N;",
            "for (int64_t i = 0; i < N; ++i) o[i] -= m;",
        ),
    ),
    Operator(
        "matmul",
        "matmul",
        "x @ w",
        (
            "std::fill(o, o + N, 0.0f);",
            "for (int64_t k = 0; k < K; ++k)",
            "  for (int64_t i = 0; i < N; ++i) o[i] += a[k] * W[k * N + i];",
        ),
        ("w", "torch.randn(K, N)"),
    ),
    Operator(
        "sum",
        "reduction",
        "x.sum(dim=1)",
        ("float z = 0.0f;", "for (int64_t i = 0; i < N; ++i) z += o[i];", "O[r] = z;"),
    ),
    Operator(
        "mean",
        "reduction",
        "x.mean(dim=1)",
        ("float z = 0.0f;", "for (int64_t i = 0; i < N; ++i) z += o[i];", "O[r] = z / N;"),
    ),
    Operator(
        "amax",
        "reduction",
        "x.amax(dim=1)",
        ("float m = o[0];", "for (int64_t i = 0; i < N; ++i) m = std::max(m, o[i]);", "O[r] = m;"),
    ),
    Operator(
        "logsumexp",
        "reduction",
        "torch.logsumexp(x, dim=1)",
        (
            "float m = o[0], z = 0.0f;",
            "for (int64_t i = 0; i < N; ++i) m = std::max(m, o[i]);",
            "for (int64_t i = 0; i < N; ++i) z += std::exp(o[i] - m);",
            "O[r] = m + std::log(z);",
        ),
    ),
    Operator(
        "mse_loss",
        "loss",
        "F.mse_loss(x, t)",
        (
            "float z = 0.0f;",
            "for (int64_t i = 0; i < N; ++i) z += (o[i] - T[r * N + i]) * (o[i] - T[r * N + i]);",
            "total += z;",
        ),
        ("t", "torch.randn(M, N)"),
    ),
    Operator(
        "l1_loss",
        "loss",
        "F.l1_loss(x, t)",
        ("float z = 0.0f;", "for (int64_t i = 0; i < N; ++i) z += std::abs(o[i] - T[r * N + i]);", "total += z;"),
        ("t", "torch.randn(M, N)"),
    ),
)
OPERATORS = {operator.name: operator for operator in _OPERATORS}


def category_of(ops: tuple[str, ...]) -> Category:
    """The category of a composition: the last in `CATEGORIES` that one of its operators has."""
    return max((OPERATORS[name].category for name in ops), key=CATEGORIES.index)
