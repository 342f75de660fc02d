# honest: gain and shift as the module has them
# task: affine_layer_norm
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
#include <cmath>
void norm(tvm::ffi::TensorView x, tvm::ffi::TensorView gain, tvm::ffi::TensorView shift, tvm::ffi::TensorView out) {
  const int64_t cols = x.size(1);
  for (int64_t r = 0; r < x.size(0); ++r) {
    const float* row = f(x) + r * cols;
    double mean = 0.0, square = 0.0;
    for (int64_t c = 0; c < cols; ++c) mean += row[c] / static_cast<double>(cols);
    for (int64_t c = 0; c < cols; ++c) square += (row[c] - mean) * (row[c] - mean) / cols;
    const double scale = 1.0 / std::sqrt(square + 1e-5);
    for (int64_t c = 0; c < cols; ++c)
      w(out)[r * cols + c] = static_cast<float>((row[c] - mean) * scale) * f(gain)[c] + f(shift)[c];
  }
}
"""
mod = load_inline(name="affine_layer_norm", cpp_sources=SOURCE, functions='norm')


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        out = torch.empty_like(x)
        mod.norm(x, self.norm.weight, self.norm.bias, out)
        return out
