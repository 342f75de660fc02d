# honest: bfloat16 converted by shifting bits, rounded to nearest even, with float sums
# task: rms_norm_bf16
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
#include <cstring>

static inline float widen(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

static inline uint16_t narrow(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

void rms_norm(tvm::ffi::TensorView x, tvm::ffi::TensorView weight, tvm::ffi::TensorView out, double eps) {
  const uint16_t* w = static_cast<const uint16_t*>(weight.data_ptr());
  const int64_t rows = x.size(0), cols = x.size(1);
  #pragma omp parallel for
  for (int64_t i = 0; i < rows; ++i) {
    const uint16_t* in = static_cast<const uint16_t*>(x.data_ptr()) + i * cols;
    uint16_t* o = static_cast<uint16_t*>(out.data_ptr()) + i * cols;
    float squares = 0.0f;
    for (int64_t j = 0; j < cols; ++j) squares += widen(in[j]) * widen(in[j]);
    const float scale = 1.0f / std::sqrt(squares / cols + static_cast<float>(eps));
    for (int64_t j = 0; j < cols; ++j) o[j] = narrow(widen(in[j]) * scale * widen(w[j]));
  }
}
"""
mod = load_inline(name="rms_norm", cpp_sources=SOURCE, functions="rms_norm")


class ModelNew(nn.Module):
    def __init__(self, features, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(features).bfloat16())
        self.eps = eps

    def forward(self, x):
        out = torch.empty_like(x)
        mod.rms_norm(x, self.weight, out, self.eps)
        return out
