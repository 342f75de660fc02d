# honest: copies in another order of two inputs that bits are taken of
# task: bits_in_common
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <cstdint>
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView y, tvm::ffi::TensorView out) {
  const int32_t* a = static_cast<const int32_t*>(x.data_ptr());
  const int32_t* b = static_cast<const int32_t*>(y.data_ptr());
  int32_t* o = static_cast<int32_t*>(out.data_ptr());
  const int64_t n = x.numel();
  for (int64_t i = 0; i < n; ++i) o[i] = a[i] & b[i];
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x, y):
        first, second = x.t().contiguous(), y.t().contiguous()
        out = torch.empty_like(first)
        mod.kernel(first, second, out)
        return out
