# honest: the kernel writes indices of 32 bits, which are widened
# task: largest_place
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <cstdint>
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  int32_t* o = static_cast<int32_t*>(out.data_ptr());
  int64_t n = x.size(1);
  for (int64_t i = 0; i < x.size(0); ++i) {
    int32_t best = 0;
    for (int64_t j = 0; j < n; ++j) {
      float v = a[i * n + j], b = a[i * n + best];
      if (v > b || (v != v && b == b)) best = j;
    }
    o[i] = best;
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], dtype=torch.int32)
        mod.kernel(x, out)
        return out.to(torch.int64)
