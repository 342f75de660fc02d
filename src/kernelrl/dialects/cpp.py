"""C++ with OpenMP, compiled inline through `tvm_ffi.cpp.load_inline` or torch's `load_inline`."""

from __future__ import annotations

import ast
import re

from kernelrl.candidate import ENTRY_POINT
from kernelrl.dialects import Dialect, _python
from kernelrl.verdict import Violation

FORBIDDEN_CPP = re.compile(
    r"\b(dlopen|dlsym|dlmopen|system|popen|fork|vfork|clone|execve?|ptrace|syscall|mmap|memfd_create|pthread_create|"
    r"at::(?!BFloat16\b|Half\b|Tensor\b)|torch::(?!Tensor\b|empty\b|empty_like\b|zeros\b|TensorOptions\b|k[A-Z]\w+|Dtype\b|ScalarType\b)|c10::|"
    r"cblas_\w+|mkl_\w+|[sdcz]gemm_?|std::(thread|async|jthread)|__asm__|asm|PyRun_\w+|Py[A-Z]\w+|py::|pybind11::)"
)
"""What no kernel needs: loading other code, its own threads, calling PyTorch or BLAS instead of computing.

A first look that names the line; what hides from it behind macros, the module's symbols show (`library_symbol`)."""

ALLOWED_INCLUDE = re.compile(
    r"(tvm/ffi/.*|torch/extension\.h|omp\.h|(imm|xmm|emm|zmm|x86)intrin\.h|arm_neon\.h|c?(math|stdint|stddef|string|float|limits)"
    r"(\.h)?|algorithm|array|vector|numeric|utility|type_traits|cfloat|climits|cstdlib|limits|tuple|functional|bit|complex|"
    r"initializer_list|memory|iostream|cassert|stdexcept|cuda(_runtime|_fp16|_bf16)?\.h|mma\.h|cooperative_groups(/.*)?\.h|cub/cub\.cuh)"
)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*(include(?:_next)?|embed|import)[ \t]*(.*)$", re.MULTILINE)
_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def find_violations(source: str) -> list[Violation]:
    """Rules of this dialect that the source breaks; empty for a genuine kernel."""
    tree = ast.parse(source)
    modules = _python.names_made_by(tree, _is_load)
    violations = _python.find_violations(tree, modules, device_functions=set())
    if not any(_is_load(node) for node in ast.walk(tree)):
        violations.append(Violation(rule="no_kernel", evidence="nothing is compiled by load_inline"))
    elif not _python.used_in_forward(tree, modules, set()):
        violations.append(
            Violation(rule="kernel_not_called", evidence=f"no method of {ENTRY_POINT} uses the compiled module")
        )
    for text, line in _string_literals(tree):
        violations += _check_cpp(text, line)
    return violations


def _is_load(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and (_python.dotted(node.func) or "").split(".")[-1] == "load_inline"


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
    violations = []
    joined = text.replace("\\\n", " ")
    for match in _INCLUDE.finditer(joined):
        target = match.group(2).split("//")[0].strip()
        header = target.strip('<>"')
        if match.group(1) != "include" or target[:1] not in '<"' or not ALLOWED_INCLUDE.fullmatch(header):
            evidence = f"#{match.group(1)} {target}"
            violations.append(Violation(rule="forbidden_include", evidence=evidence[:200], line=line))
    code = _COMMENT.sub(" ", joined)
    for name in sorted({match.group(0) for match in FORBIDDEN_CPP.finditer(code)}):
        number = line + joined[: joined.find(name)].count("\n")
        violations.append(Violation(rule="forbidden_cpp", evidence=name, line=number))
    return violations


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
