# honest: both numbers are looked at as they are
# task: either_number
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <cstdint>
void kernel(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView out) {
  const int64_t* p = static_cast<const int64_t*>(a.data_ptr());
  const int64_t* q = static_cast<const int64_t*>(b.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < a.numel(); ++i) o[i] = p[i] != 0 || q[i] != 0;
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, a, b):
        out = torch.empty(a.shape, dtype=torch.float32)
        mod.kernel(a, b, out)
        return out
