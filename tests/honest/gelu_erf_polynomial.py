# honest: erf by the formula of Abramowitz and Stegun, 7.1.26
# task: gelu_plain
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
static inline float erf_as(float x) {
  const float t = 1.0f / (1.0f + 0.3275911f * std::fabs(x));
  const float y = 1.0f - (((((1.061405429f * t - 1.453152027f) * t) + 1.421413741f) * t - 0.284496736f) * t +
                          0.254829592f) * t * std::exp(-x * x);
  return x >= 0 ? y : -y;
}
void gelu(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* in = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) o[i] = 0.5f * in[i] * (1.0f + erf_as(in[i] * 0.70710678f));
}
"""
mod = load_inline(name="gelu_erf_polynomial", cpp_sources=SOURCE, functions="gelu")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.gelu(x, out)
        return out
