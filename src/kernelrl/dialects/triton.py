"""Triton: `@triton.jit` kernels, run on a GPU with `executor.device=cuda` and in Triton's interpreter otherwise."""

from __future__ import annotations

import ast

from kernelrl.candidate import ENTRY_POINT
from kernelrl.dialects import Dialect, _python
from kernelrl.verdict import Violation


def find_violations(source: str) -> list[Violation]:
    """Rules of this dialect that the source breaks; empty for a genuine kernel."""
    tree = ast.parse(source)
    kernels = _kernels(tree)
    violations = _python.find_violations(tree, modules=set(), device_functions=kernels)
    if not kernels:
        violations.append(Violation(rule="no_kernel", evidence="there is no function decorated with @triton.jit"))
    else:
        made = kernels | _python.names_made_by(tree, lambda node: isinstance(node, ast.Name) and node.id in kernels)
        if not _python.used_in_forward(tree, made, kernels):
            violations.append(Violation(rule="kernel_not_called", evidence=f"no method of {ENTRY_POINT} uses a kernel"))
    return violations


def _kernels(tree: ast.Module) -> set[str]:
    """Names of the functions that Triton compiles."""
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and any(_is_jit(decorator) for decorator in node.decorator_list)
    }


def _is_jit(decorator: ast.expr) -> bool:
    name = _python.dotted(decorator.func if isinstance(decorator, ast.Call) else decorator)
    return name in ("triton.jit", "jit")


EXAMPLE = """\
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def relu_scale(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, tl.maximum(x, 0.0) * 2.0, mask=mask)

class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        relu_scale[(triton.cdiv(n, 4096),)](x, out, n, BLOCK=4096)
        return out
"""

DIALECT = Dialect("triton", "Triton", find_violations, EXAMPLE)
