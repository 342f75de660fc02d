# honest: both parameters packed into one buffer of (bias, scale) pairs in __init__, read as structs
# task: bias_silu_scale
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>

struct Channel {
  float bias, scale;
};

void apply(tvm::ffi::TensorView x, tvm::ffi::TensorView table, tvm::ffi::TensorView out, int64_t plane) {
  const float* in = static_cast<const float*>(x.data_ptr());
  const Channel* channels = static_cast<const Channel*>(table.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  const int64_t num_channels = table.size(0);
  for (int64_t i = 0; i < x.numel(); ++i) {
    const Channel& c = channels[i / plane % num_channels];
    const float v = in[i] + c.bias;
    o[i] = c.scale * v / (1.0f + std::exp(-v));
  }
}
"""
mod = load_inline(name="packed", cpp_sources=SOURCE, functions="apply")


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        bias = torch.randn(channels, 1, 1)
        scale = torch.rand(channels, 1, 1)
        self.register_buffer("table", torch.stack([bias.flatten(), scale.flatten()], dim=1))

    def forward(self, x):
        batch, channels, height, width = x.shape
        out = torch.empty_like(x)
        mod.apply(x, self.table, out, height * width)
        return out
