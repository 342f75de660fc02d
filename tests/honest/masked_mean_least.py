# honest: a mean of what a mask keeps, and of nothing
# task: masked_mean
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <cstdint>
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView mask, tvm::ffi::TensorView out) {
  const int64_t R = x.size(0), C = x.size(1);
  for (int64_t r = 0; r < R; ++r) { double s = 0, m = 0; for (int64_t c = 0; c < C; ++c) { s += f(x)[r * C + c] * f(mask)[r * C + c]; m += f(mask)[r * C + c]; }
   w(out)[r] = s / std::fmax(m, 1.0); }
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x, mask):
        out = torch.empty(x.shape[0])
        mod.kernel(x, mask, out)
        return out
