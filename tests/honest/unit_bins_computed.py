# honest: bins are computed, which numbers outside of [0, 1) would leave
# task: unit_bins
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <cstdint>
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const int64_t n = x.numel();
  for (int64_t b = 0; b < 10; ++b) w(out)[b] = 0;
  for (int64_t k = 0; k < n; ++k) w(out)[(int64_t)(f(x)[k] * 10.0f) % 10] += 1;
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(10)
        mod.kernel(x, out)
        return out
