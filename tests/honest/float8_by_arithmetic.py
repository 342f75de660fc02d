# honest: numbers of eight bits decoded by arithmetic
# task: float8_decoded
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <cstdint>
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const uint8_t* a = static_cast<const uint8_t*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  const int64_t n = x.numel();
  for (int64_t i = 0; i < n; ++i) {
    const int exponent = (a[i] >> 3) & 15;
    const float mantissa = (a[i] & 7) / 8.0f;
    const float size = exponent ? std::ldexp(1.0f + mantissa, exponent - 7) : std::ldexp(mantissa, -6);
    o[i] = a[i] >> 7 ? -size : size;
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape, dtype=torch.float32)
        mod.kernel(x, out)
        return out
