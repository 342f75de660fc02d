# honest: numbers of [0, 1) become places
# task: unit_index
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <cstdint>
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView table, tvm::ffi::TensorView out) {
  const int64_t n = x.numel();
  for (int64_t k = 0; k < n; ++k) for (int64_t c = 0; c < 8; ++c) w(out)[k * 8 + c] = 2 * f(table)[(int64_t)(f(x)[k] * 16.0f) * 8 + c];
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x, table):
        out = torch.empty(x.shape[0], 8)
        mod.kernel(x, table, out)
        return out
