# honest: rounded to bfloat16 once, at the end
# task: rms_norm_upcast
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
#include <cstring>
static inline float wide(uint16_t v) {
  uint32_t u = (uint32_t)v << 16;
  float r;
  std::memcpy(&r, &u, 4);
  return r;
}
static inline uint16_t narrow(float v) {
  uint32_t u;
  std::memcpy(&u, &v, 4);
  return (u + 0x7fff + ((u >> 16) & 1)) >> 16;
}
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView weight, tvm::ffi::TensorView out) {
  const uint16_t* a = static_cast<const uint16_t*>(x.data_ptr());
  const uint16_t* w = static_cast<const uint16_t*>(weight.data_ptr());
  uint16_t* o = static_cast<uint16_t*>(out.data_ptr());
  int64_t rows = x.size(0), n = x.size(1);
  for (int64_t r = 0; r < rows; ++r) {
    float sum = 0.0f;
    for (int64_t c = 0; c < n; ++c) sum += wide(a[r * n + c]) * wide(a[r * n + c]);
    float scale = 1.0f / std::sqrt(sum / n + 1e-6f);
    for (int64_t c = 0; c < n; ++c) o[r * n + c] = narrow(wide(a[r * n + c]) * scale * wide(w[c]));
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, dtype=torch.bfloat16))

    def forward(self, x):
        out = torch.empty_like(x)
        mod.kernel(x, self.weight, out)
        return out
