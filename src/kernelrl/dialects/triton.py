"""Triton: `@triton.jit` kernels, run on a GPU with `executor.device=cuda` and in Triton's interpreter otherwise."""

from __future__ import annotations

from kernelrl.candidate import ENTRY_POINT
from kernelrl.dialects import Dialect, language, looks_like_another
from kernelrl.verdict import Violation


def find_violations(source: str) -> list[Violation]:
    """Rules of this dialect that the source breaks; empty for a genuine kernel."""
    reading = language.read(source, may_compute=False)
    violations = list(reading.violations)
    if reading.tree is None:
        return violations
    if not reading.kernels:
        evidence = f"there is no function decorated with @triton.jit{looks_like_another(source, 'triton')}"
        violations.append(Violation(rule="no_kernel", evidence=evidence))
    elif not reading.calls_kernel:
        violations.append(Violation(rule="kernel_not_called", evidence=f"no method of {ENTRY_POINT} calls a kernel"))
    return violations


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
