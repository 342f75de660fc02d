# honest: a binary search among sums of numbers of [0, 1), which ascend
# task: unit_search
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <cstdint>
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView edges, tvm::ffi::TensorView out) {
  const int64_t n = x.numel();
  const int64_t m = edges.numel(); int64_t* o = static_cast<int64_t*>(out.data_ptr());
  for (int64_t k = 0; k < n; ++k) { int64_t lo = 0, hi = m; while (lo < hi) { int64_t c = (lo + hi) / 2; if (f(edges)[c] >= f(x)[k]) hi = c; else lo = c + 1; } o[k] = lo; }
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x, edges):
        out = torch.empty(x.shape[0], dtype=torch.int64)
        mod.kernel(x, edges, out)
        return out
