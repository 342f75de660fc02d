# honest: one plane per (image, channel), by collapse(2)
# task: bias_silu_scale
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>

void bias_silu_scale(tvm::ffi::TensorView x, tvm::ffi::TensorView bias, tvm::ffi::TensorView scale,
                     tvm::ffi::TensorView out) {
  const float* in = static_cast<const float*>(x.data_ptr());
  const float* b = static_cast<const float*>(bias.data_ptr());
  const float* s = static_cast<const float*>(scale.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  const int64_t images = x.size(0), channels = x.size(1), plane = x.size(2) * x.size(3);
  #pragma omp parallel for collapse(2)
  for (int64_t n = 0; n < images; ++n)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t i = (n * channels + c) * plane, end = i + plane; i < end; ++i) {
        const float v = in[i] + b[c];
        o[i] = s[c] * v / (1.0f + std::exp(-v));
      }
}
"""
mod = load_inline(name="channels", cpp_sources=SOURCE, functions="bias_silu_scale")


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(channels, 1, 1))
        self.scale = nn.Parameter(torch.rand(channels, 1, 1))

    def forward(self, x):
        out = torch.empty_like(x)
        mod.bias_silu_scale(x, self.bias, self.scale, out)
        return out
