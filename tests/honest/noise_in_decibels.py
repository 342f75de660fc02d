# honest: the noise that rounding makes, in decibels
# task: noise_of_bfloat16
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <cstdint>
#include <cstring>
static inline float rounded(float v) {
  uint32_t bits;
  std::memcpy(&bits, &v, 4);
  bits = (bits & 0x7fffffff) > 0x7f800000 ? bits | 0x400000 : bits + 0x7fff + ((bits >> 16) & 1);
  bits &= 0xffff0000u;
  std::memcpy(&v, &bits, 4);
  return v;
}
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  const int64_t R = x.size(0), C = x.size(1);
  for (int64_t r = 0; r < R; ++r) {
    double size = 0, noise = 0;
    for (int64_t c = 0; c < C; ++c) {
      const double v = a[r * C + c], error = v - rounded(a[r * C + c]);
      size += v * v;
      noise += error * error;
    }
    o[r] = 10 * std::log10(size / noise);
  }
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[:1], dtype=torch.float32)
        mod.kernel(x.contiguous(), out)
        return out
