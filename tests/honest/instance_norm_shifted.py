# honest: one pass over a channel, shifted by its first value so that nothing cancels
# task: instance_norm
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>

void instance_norm(tvm::ffi::TensorView x, tvm::ffi::TensorView weight, tvm::ffi::TensorView bias,
                   tvm::ffi::TensorView out) {
  const int64_t channels = x.size(1), length = x.size(2);
  #pragma omp parallel for
  for (int64_t row = 0; row < x.size(0) * channels; ++row) {
    const float* in = static_cast<const float*>(x.data_ptr()) + row * length;
    float* o = static_cast<float*>(out.data_ptr()) + row * length;
    const double shift = in[0];
    double sum = 0.0, squares = 0.0;
    for (int64_t i = 0; i < length; ++i) {
      const double v = in[i] - shift;
      sum += v;
      squares += v * v;
    }
    const double offset = sum / length, variance = squares / length - offset * offset;
    const float scale = static_cast<const float*>(weight.data_ptr())[row % channels] / std::sqrt(variance + 1e-5);
    const float base = static_cast<const float*>(bias.data_ptr())[row % channels];
    for (int64_t i = 0; i < length; ++i) o[i] = static_cast<float>(in[i] - shift - offset) * scale + base;
  }
}
"""
mod = load_inline(name="instance_norm", cpp_sources=SOURCE, functions="instance_norm")


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.InstanceNorm1d(channels, affine=True)

    def forward(self, x):
        out = torch.empty_like(x)
        mod.instance_norm(x, self.norm.weight, self.norm.bias, out)
        return out
