# honest: erf by a polynomial (Abramowitz and Stegun 7.1.26) with its coefficients in a constexpr table
# task: gelu
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <array>
#include <cmath>

constexpr std::array<float, 5> COEFFICIENTS = {1.061405429f, -1.453152027f, 1.421413741f, -0.284496736f, 0.254829592f};

static inline float erf_positive(float x) {
  const float t = 1.0f / (1.0f + 0.3275911f * x);
  float sum = 0.0f;
  for (float c : COEFFICIENTS) sum = (sum + c) * t;
  return 1.0f - sum * std::exp(-x * x);
}

void gelu(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* in = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) {
    const float e = erf_positive(std::fabs(in[i]) * 0.70710678f);
    o[i] = 0.5f * in[i] * (1.0f + std::copysign(e, in[i]));
  }
}
"""
mod = load_inline(name="gelu_polynomial", cpp_sources=SOURCE, functions="gelu")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.gelu(x, out)
        return out
