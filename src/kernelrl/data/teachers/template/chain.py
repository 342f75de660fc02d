"""Fused `cpp` kernels for a chain of operators (`data/graph/chain.py`).

A row is kept in cache and every operator is applied to it, so that the matrix moves through memory once. What a kernel
does beside that is its level: several threads or one, vectors of this machine or of any. Each kernel comes with two
reasonings that lead to it, as in data from many hands: a brief one, and one that works through every operator. Nothing
in the question tells which level or which reasoning is wanted, so a policy that learns from several has them all, and
reinforcement learning finds out which serves it best. Not covered: tasks that are no chain, and dialects other than
`cpp`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import groupby

from kernelrl.data.graph.chain import OPERANDS, OPERATORS, statement
from kernelrl.data.teachers import Proposal
from kernelrl.task import Task

PER_ELEMENT = ("elementwise", "broadcast")
_LARGEST = "float m = o[0];\nfor (int64_t i = 0; i < N; ++i) m = std::max(m, o[i]);\n"
_MEAN = "float m = 0.0f;\nfor (int64_t i = 0; i < N; ++i) m += o[i] / N;\n"
_SUM = "float z = 0.0f;\nfor (int64_t i = 0; i < N; ++i) z += "
CPP = {
    "relu": "v = std::max(v, 0.0f);",
    "relu6": "v = std::min(std::max(v, 0.0f), 6.0f);",
    "leaky_relu": "v = v > 0.0f ? v : 0.1f * v;",
    "elu": "v = v > 0.0f ? v : std::expm1(v);",
    "sigmoid": "v = 1.0f / (1.0f + std::exp(-v));",
    "tanh": "v = std::tanh(v);",
    "silu": "v = v / (1.0f + std::exp(-v));",
    "gelu": "v = 0.5f * v * (1.0f + std::erf(0.7071068f * v));",
    "softplus": "v = std::max(v, 0.0f) + std::log1p(std::exp(-std::abs(v)));",
    "hardswish": "v = v * std::min(std::max(v + 3.0f, 0.0f), 6.0f) / 6.0f;",
    "softsign": "v = v / (1.0f + std::abs(v));",
    "tanhshrink": "v = v - std::tanh(v);",
    "abs": "v = std::abs(v);",
    "square": "v = v * v;",
    "add_bias": "v = v + B[i];",
    "mul_gain": "v = v * G[i];",
    "scale_rows": "v = v * S[r];",
    "add_residual": "v = v + Y[r * N + i];",
    "softmax": f"{_LARGEST}{_SUM}o[i] = std::exp(o[i] - m);\nfor (int64_t i = 0; i < N; ++i) o[i] /= z;",
    "log_softmax": f"{_LARGEST}{_SUM}std::exp(o[i] - m);\nfor (int64_t i = 0; i < N; ++i) o[i] -= m + std::log(z);",
    "layer_norm": f"{_MEAN}float q = 0.0f;\nfor (int64_t i = 0; i < N; ++i) q += (o[i] - m) * (o[i] - m) / N;\n"
    "for (int64_t i = 0; i < N; ++i) o[i] = (o[i] - m) / std::sqrt(q + 1e-5f);",
    "rms_norm": "float q = 0.0f;\nfor (int64_t i = 0; i < N; ++i) q += o[i] * o[i] / N;\n"
    "for (int64_t i = 0; i < N; ++i) o[i] /= std::sqrt(q + 1e-5f);",
    "center": f"{_MEAN}for (int64_t i = 0; i < N; ++i) o[i] -= m;",
    "matmul": "std::fill(o, o + N, 0.0f);\nfor (int64_t k = 0; k < K; ++k)\n"
    "  for (int64_t i = 0; i < N; ++i) o[i] += a[k] * W[k * N + i];",
    "sum": f"{_SUM}o[i];\nO[r] = z;",
    "mean": f"{_SUM}o[i];\nO[r] = z / N;",
    "amax": f"{_LARGEST}O[r] = m;",
    "logsumexp": f"{_LARGEST}{_SUM}std::exp(o[i] - m);\nO[r] = m + std::log(z);",
    "mse_loss": f"{_SUM}(o[i] - T[r * N + i]) * (o[i] - T[r * N + i]);\ntotal += z;",
    "l1_loss": f"{_SUM}std::abs(o[i] - T[r * N + i]);\ntotal += z;",
}
"""C++ of each operator on row `r`: `v` is an element inside a loop over `i`, `o` the row of `N` floats."""


@dataclass(frozen=True)
class Level:
    """What makes a kernel fast beside fusion.

    Attributes:
        threads: rows are dealt out to all cores.
        native: compiled for the processor that compiles it.
    """

    name: str
    threads: bool
    native: bool


LEVELS = (
    Level("parallel, native", True, True),
    Level("parallel", True, False),
    Level("native", False, True),
    Level("plain", False, False),
)
"""Fastest first: on two cores each of the two is worth up to a factor of two."""


def propose(task: Task, num_levels: int = 1) -> list[Proposal]:
    """Kernels for a task whose operators are all of `CPP`, each with two reasonings; fastest first.

    Args:
        num_levels: 1: the fastest level alone; more: so many, drawn for each task.
    """
    drawn = random.Random(task.id).sample(range(len(LEVELS)), num_levels) if num_levels > 1 else [0]
    return [
        Proposal(reason(task.ops, level), _kernel(task.ops, level), level.name)
        for level in map(LEVELS.__getitem__, sorted(drawn))
        for reason in (_reason_briefly, _reason_at_length)
    ]


def _reason_briefly(ops: tuple[str, ...], level: Level) -> str:
    """What bounds the task, what is fused and how it is parallelised."""
    bound = "The product does most of the arithmetic" if ops[0] == "matmul" else "Memory-bound"
    return (
        f"{bound}.\n{len(ops)} operators would move the matrix through memory {len(ops)} times.\n"
        f"Plan: {'each' if level.threads else 'one'} thread takes a row, keeps it in cache and applies every operator "
        f"to it.\n{_target(level)}"
    )


def _reason_at_length(ops: tuple[str, ...], level: Level) -> str:
    """The same, then each line of the program beside its translation."""
    lines = [
        "Each operator reads what the one before it wrote, so the matrix would move through memory once per operator.",
        f"One row fits in cache: rows {'in parallel' if level.threads else 'in order'}, all operators fused.",
        f"{_target(level)} Line by line:",
    ]
    for name in ops:
        lines += [f"        {statement(name)}", *_translate(name)]
    return "\n".join(lines)


def _target(level: Level) -> str:
    return f"The vectors are those of {'this' if level.native else 'any'} machine."


def _kernel(ops: tuple[str, ...], level: Level) -> str:
    last = OPERATORS[ops[-1]]
    tensors = ["x", *(OPERANDS[name][0] for name in ops if name in OPERANDS)]
    arguments = "".join(f"    tvm::ffi::TensorView {name},\n" for name in tensors)
    pointers = "".join(
        f"  const float* {name.upper()} = static_cast<const float*>({name}.data_ptr());\n" for name in tensors
    )
    matmul = ops[0] == "matmul"
    sizes = "M = x.size(0), K = x.size(1), N = w.size(1)" if matmul else "M = x.size(0), N = x.size(1)"
    stride = "K" if matmul else "N"
    row = (
        "std::vector<float> row(N);\n    float* o = row.data();"
        if last in ("reduction", "loss")
        else "float* o = O + r * N;"
    )
    body = "".join(f"{line}\n" for line in _row(ops))
    parallel, total, close = "  #pragma omp parallel for", "", "  }\n"
    if last == "loss":
        parallel += " reduction(+ : total)"
        total = "  double total = 0.0;\n"
        close = "  }\n  O[0] = total / (M * N);\n"
    parallel = f"{parallel}\n" if level.threads else ""
    flags = ["-O3", *(["-march=native"] if level.native else []), "-fopenmp", "-ffast-math", "-mrecip=none"]
    shape = {"reduction": "x.shape[0]", "loss": "()"}.get(last, "x.shape[0], args[0].shape[1]" if matmul else "x.shape")
    return f'''\
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <algorithm>
#include <cmath>
#include <vector>
void kernel(
{arguments}    tvm::ffi::TensorView out) {{
{pointers}  float* O = static_cast<float*>(out.data_ptr());
  const int64_t {sizes};
{total}{parallel}  for (int64_t r = 0; r < M; ++r) {{
    const float* a = X + r * {stride};
    {row}
{body}{close}}}
"""
FLAGS = [{", ".join(f'"{flag}"' for flag in flags)}]
mod = load_inline("kernel", cpp_sources=SOURCE, functions="kernel", extra_cflags=FLAGS, extra_ldflags=["-fopenmp"])


class ModelNew(nn.Module):
    def forward(self, x, *args):
        out = torch.empty({shape})
        mod.kernel(x, *args, out)
        return out
'''


def _row(ops: tuple[str, ...]) -> list[str]:
    """C++ lines that turn row `a` of the input into row `o` of the output."""
    lines: list[str] = []
    row = "a"
    for per_element, group in groupby(ops, key=lambda name: OPERATORS[name] in PER_ELEMENT):
        if per_element:
            lines += ["    for (int64_t i = 0; i < N; ++i) {", f"      float v = {row}[i];"]
            lines += [line for name in group for line in _translate(name)]
            lines += ["      o[i] = v;", "    }"]
        else:
            if row == "a" and ops[0] != "matmul":
                lines.append("    std::copy(a, a + N, o);")
            lines += [line for name in group for line in ("    {", *_translate(name), "    }")]
        row = "o"
    return lines


def _translate(name: str) -> list[str]:
    """The operator's C++ lines as they stand in the kernel."""
    return [f"      {line}" for line in CPP[name].splitlines()]
