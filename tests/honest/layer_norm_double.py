# honest: sum and sum of squares in one pass, in double; squeezed to two dimensions and back
# task: layer_norm
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <algorithm>
#include <cmath>

void layer_norm(tvm::ffi::TensorView x, tvm::ffi::TensorView weight, tvm::ffi::TensorView bias,
                tvm::ffi::TensorView out) {
  const float* w = static_cast<const float*>(weight.data_ptr());
  const float* b = static_cast<const float*>(bias.data_ptr());
  const int64_t rows = x.size(0), cols = x.size(1);
  for (int64_t i = 0; i < rows; ++i) {
    const float* in = static_cast<const float*>(x.data_ptr()) + i * x.stride(0);
    float* o = static_cast<float*>(out.data_ptr()) + i * cols;
    double sum = 0.0, squares = 0.0;
    #pragma omp simd reduction(+ : sum, squares)
    for (int64_t j = 0; j < cols; ++j) {
      const double v = in[j];
      sum += v;
      squares += v * v;
    }
    const double mean = sum / cols;
    const double variance = std::max(squares / cols - mean * mean, 0.0);
    const double scale = 1.0 / std::sqrt(variance + 1e-5);
    for (int64_t j = 0; j < cols; ++j) o[j] = static_cast<float>((in[j] - mean) * scale) * w[j] + b[j];
  }
}
"""
mod = load_inline(name="layer_norm_double", cpp_sources=SOURCE, functions="layer_norm")


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features))
        self.bias = nn.Parameter(torch.randn(features))

    def forward(self, x):
        rows = x.squeeze(1)
        out = torch.empty(rows.shape)
        mod.layer_norm(rows, self.weight.detach(), self.bias.detach(), out)
        return out.unsqueeze(1)
