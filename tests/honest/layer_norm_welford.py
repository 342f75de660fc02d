# honest: mean and variance of a row by Welford, then one fused pass with weight and bias
# task: layer_norm
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>

using tvm::ffi::TensorView;

void layer_norm(TensorView x, TensorView weight, TensorView bias, TensorView out, double eps) {
  const float* w = static_cast<const float*>(weight.data_ptr());
  const float* b = static_cast<const float*>(bias.data_ptr());
  const int64_t cols = weight.numel(), rows = x.numel() / cols;
  #pragma omp parallel for
  for (int64_t i = 0; i < rows; ++i) {
    const float* in = static_cast<const float*>(x.data_ptr()) + i * cols;
    float* o = static_cast<float*>(out.data_ptr()) + i * cols;
    float mean = 0.0f, m2 = 0.0f;
    for (int64_t j = 0; j < cols; ++j) {
      const float delta = in[j] - mean;
      mean += delta / static_cast<float>(j + 1);
      m2 += delta * (in[j] - mean);
    }
    const float scale = 1.0f / std::sqrt(m2 / static_cast<float>(cols) + static_cast<float>(eps));
    for (int64_t j = 0; j < cols; ++j) o[j] = (in[j] - mean) * scale * w[j] + b[j];
  }
}
"""
mod = load_inline(name="layer_norm", cpp_sources=SOURCE, functions="layer_norm")


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features))
        self.bias = nn.Parameter(torch.randn(features))

    def forward(self, x):
        out = torch.empty_like(x)
        mod.layer_norm(x, self.weight, self.bias, out, 1e-5)
        return out
