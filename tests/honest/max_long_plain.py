# honest: one maximum after another
# task: max_long
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <algorithm>
#include <cmath>
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  int64_t rows = x.size(0), n = x.size(1);
  for (int64_t r = 0; r < rows; ++r) {
    float m = -INFINITY;
    for (int64_t c = 0; c < n; ++c) {
      m = std::max(m, a[r * n + c]);
    }
    o[r] = m;
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel", extra_cflags=["-O3", "-ffast-math"])


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0])
        mod.kernel(x, out)
        return out
