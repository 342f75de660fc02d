# honest: parameters filled by nn.init, as the reference does
# task: group_norm
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>

void group_norm(tvm::ffi::TensorView x, tvm::ffi::TensorView weight, tvm::ffi::TensorView bias,
                tvm::ffi::TensorView out, int64_t groups, double eps) {
  const float* w = static_cast<const float*>(weight.data_ptr());
  const float* b = static_cast<const float*>(bias.data_ptr());
  const int64_t channels = x.size(1), plane = x.size(2) * x.size(3), size = channels / groups * plane;
  #pragma omp parallel for
  for (int64_t g = 0; g < x.size(0) * groups; ++g) {
    const float* in = static_cast<const float*>(x.data_ptr()) + g * size;
    float* o = static_cast<float*>(out.data_ptr()) + g * size;
    double mean = 0.0, variance = 0.0;
    for (int64_t i = 0; i < size; ++i) mean += in[i] / static_cast<double>(size);
    for (int64_t i = 0; i < size; ++i) variance += (in[i] - mean) * (in[i] - mean) / static_cast<double>(size);
    const double scale = 1.0 / std::sqrt(variance + eps);
    for (int64_t i = 0; i < size; ++i) {
      const int64_t c = g % groups * (channels / groups) + i / plane;
      o[i] = static_cast<float>((in[i] - mean) * scale) * w[c] + b[c];
    }
  }
}
"""
mod = load_inline(name="group_norm", cpp_sources=SOURCE, functions="group_norm")


class ModelNew(nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)
        nn.init.normal_(self.norm.weight)
        nn.init.normal_(self.norm.bias)

    def forward(self, x):
        out = torch.empty_like(x)
        mod.group_norm(x, self.norm.weight, self.norm.bias, out, self.norm.num_groups, self.norm.eps)
        return out
