"""C++ with OpenMP, compiled inline through `tvm_ffi.cpp.load_inline` or torch's `load_inline`."""

from __future__ import annotations

import ast

from kernelrl.candidate import ENTRY_POINT
from kernelrl.dialects import Dialect, language, looks_like_another
from kernelrl.dialects._cpp_text import forbidden_includes, forbidden_words
from kernelrl.verdict import Violation


def find_violations(source: str) -> list[Violation]:
    """Rules of this dialect that the source breaks; empty for a genuine kernel."""
    reading = language.read(source, may_compute=False)
    violations = list(reading.violations)
    if reading.tree is None:
        return violations
    if not reading.compiles:
        evidence = f"nothing is compiled by load_inline{looks_like_another(source, 'cpp')}"
        violations.append(Violation(rule="no_kernel", evidence=evidence))
    elif not reading.calls_kernel:
        evidence = f"no method of {ENTRY_POINT} calls a function of the compiled module"
        violations.append(Violation(rule="kernel_not_called", evidence=evidence))
    for text, line in _string_literals(reading.tree):
        violations += _check_cpp(text, line)
    return violations


def _string_literals(tree: ast.Module) -> list[tuple[str, int]]:
    """Strings that may be native code, with their lines: all but those that stand by themselves, as docstrings do."""
    standing = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        (node.value, node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in standing
        and ("(" in node.value or "#" in node.value)
    ]


def _check_cpp(text: str, line: int) -> list[Violation]:
    includes = [Violation(rule="forbidden_include", evidence=found, line=line) for found in forbidden_includes(text)]
    words = [Violation(rule="forbidden_cpp", evidence=name, line=line + below) for name, below in forbidden_words(text)]
    return includes + words


EXAMPLE = '''\
import torch
import torch.nn as nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void relu_scale(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  const int64_t n = x.numel();
  #pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) o[i] = (a[i] > 0.0f ? a[i] : 0.0f) * 2.0f;
}
"""
module = load_inline(name="relu_scale", cpp_sources=SOURCE, functions="relu_scale")

class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        module.relu_scale(x, out)
        return out
'''

DIALECT = Dialect("cpp", "C++ with OpenMP", find_violations, EXAMPLE)
