# honest: copies in another order of two inputs of which one is chosen
# task: larger_of_columns
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <cstdint>
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView y, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  const float* b = static_cast<const float*>(y.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  const int64_t n = x.numel();
  for (int64_t i = 0; i < n; ++i) o[i] = a[i] > b[i] || std::isnan(a[i]) ? a[i] : b[i];
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x, y):
        first, second = x.t().contiguous(), y.t().contiguous()
        out = torch.empty_like(first)
        mod.kernel(first, second, out)
        return out
