"""Inline CUDA through `tvm_ffi.cpp.load_inline` or torch's `load_inline` with `cuda_sources`.

Where there is no GPU such a kernel is compiled for a named architecture and not run; the verdict says so.
"""

from __future__ import annotations

import ast

from kernelrl.dialects import Dialect, cpp
from kernelrl.syntax import parse
from kernelrl.verdict import Violation


def find_violations(source: str) -> list[Violation]:
    """Rules of this dialect that the source breaks; empty for a genuine kernel."""
    violations = cpp.find_violations(source)
    literals = [node.value for node in ast.walk(parse(source)) if isinstance(node, ast.Constant)]
    texts = [text for text in literals if isinstance(text, str)]
    if not any("__global__" in text for text in texts):
        violations.append(Violation(rule="no_kernel", evidence="no text defines a __global__ function"))
    elif not any("<<<" in text for text in texts):
        violations.append(Violation(rule="kernel_not_called", evidence="no text launches a kernel<<<…>>>(…)"))
    return violations


EXAMPLE = '''\
import torch
import torch.nn as nn
from tvm_ffi.cpp import load_inline

SOURCE = """
__global__ void relu_scale_kernel(const float* a, float* o, int64_t n) {
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) o[i] = (a[i] > 0.0f ? a[i] : 0.0f) * 2.0f;
}
void relu_scale(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const int64_t n = x.numel();
  cudaStream_t stream = static_cast<cudaStream_t>(
      TVMFFIEnvGetStream(x.device().device_type, x.device().device_id));
  relu_scale_kernel<<<(n + 255) / 256, 256, 0, stream>>>(
      static_cast<const float*>(x.data_ptr()), static_cast<float*>(out.data_ptr()), n);
}
"""
module = load_inline(name="relu_scale", cuda_sources=SOURCE, functions="relu_scale")

class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        module.relu_scale(x, out)
        return out
'''

DIALECT = Dialect("cuda", "CUDA", find_violations, EXAMPLE)
