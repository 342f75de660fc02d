"""C++ with OpenMP, compiled inline through `tvm_ffi.cpp.load_inline` or torch's `load_inline`."""

from __future__ import annotations

import ast
import re

from kernelrl.candidate import ENTRY_POINT
from kernelrl.dialects import Dialect, language
from kernelrl.verdict import Violation

FORBIDDEN_CPP = re.compile(
    r"\b(dlopen|dlsym|dlmopen|system|popen|fork|vfork|execve?|ptrace|syscall|mmap|memfd_create|pthread_create|"
    r"at::(?!BFloat16\b|Half\b|Tensor\b)|torch::(?!Tensor\b|empty\b|empty_like\b|zeros\b|TensorOptions\b|k[A-Z]\w+|"
    r"Dtype\b|ScalarType\b)|c10::|cblas_\w+|mkl_\w+|[sdcz]gemm_?|std::(thread|async|jthread)|(__)?asm(__)?|__volatile__|"
    r"PyRun_\w+|Py[A-Z]\w+|py::|pybind11::|tvm::ffi::(Typed)?(Packed)?Function\b|link_map|_GLOBAL_OFFSET_TABLE_|_DYNAMIC|"
    r"_r_debug|_rtld_\w+|ElfW|Elf64_\w+|_*(section|alias|ifunc|constructor|destructor|weakref|naked)_*(?=\s*[(\])])|"
    r"__has_include|__has_embed|init_priority)"
)
"""What no kernel needs: other code, its own threads, PyTorch or BLAS instead of computing, its own place in the binary.

Looked for in the candidate's strings, which names the line, and again by the builder in what the preprocessor makes of
them, which macros, pasted names, `-D` flags and texts put together by Python do not escape."""

ALLOWED_INCLUDE = re.compile(
    r"(tvm/ffi/[\w/]+\.h|torch/extension\.h|omp\.h|(imm|xmm|emm|zmm|x86)intrin\.h|arm_neon\.h|c?(math|stdint|stddef|string|float|limits)"
    r"(\.h)?|algorithm|array|vector|numeric|utility|type_traits|cfloat|climits|cstdlib|limits|tuple|functional|bit|complex|"
    r"initializer_list|memory|iostream|cassert|stdexcept|cuda(_runtime|_fp16|_bf16)?\.h|mma\.h|cooperative_groups(/.*)?\.h|cub/cub\.cuh)"
)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*(include(?:_next)?|embed|import)\b[ \t]*(.*)$", re.MULTILINE)
_TEXT = re.compile(
    r"//[^\n]*|/\*.*?(?:\*/|\Z)"
    r'|R"(\w{0,16})\(.*?(?:\)\1"|\Z)|"(?:\\.|[^"\\\n])*"'
    r"|(?<!\w)'(?:\\.|[^'\\\n])+'",
    re.DOTALL,
)
"""Comments, strings and characters."""


def find_violations(source: str) -> list[Violation]:
    """Rules of this dialect that the source breaks; empty for a genuine kernel."""
    reading = language.read(source)
    violations = list(reading.violations)
    if reading.tree is None:
        return violations
    if not reading.compiles:
        violations.append(Violation(rule="no_kernel", evidence="nothing is compiled by load_inline"))
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
    joined = _as_compiled(text)
    violations = [Violation(rule="forbidden_include", evidence=found, line=line) for found in foul_includes(text)]
    for name in foul_words(text):
        number = line + joined[: joined.find(name)].count("\n")
        violations.append(Violation(rule="forbidden_cpp", evidence=name, line=number))
    return violations


def foul_includes(text: str) -> list[str]:
    """Include directives of C++ text that name no header of `ALLOWED_INCLUDE`."""
    found = []
    for match in _INCLUDE.finditer(_TEXT.sub(lambda it: " " if it[0].startswith("/") else it[0], _as_compiled(text))):
        target = match.group(2).strip()
        if match.group(1) != "include" or not re.fullmatch(r'[<"](.*)[>"]', target):
            found.append(f"#{match.group(1)} {target}"[:200])
        elif not ALLOWED_INCLUDE.fullmatch(target[1:-1]):
            found.append(f"#include {target}"[:200])
    return found


def foul_words(text: str) -> list[str]:
    """Words of C++ text, outside comments and strings, that `FORBIDDEN_CPP` matches."""
    return sorted({match.group(0) for match in FORBIDDEN_CPP.finditer(_TEXT.sub(" ", _as_compiled(text)))})


def _as_compiled(text: str) -> str:
    """Continued lines joined, digraphs replaced."""
    return text.replace("\\\n", "").replace("%:", "#")


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
