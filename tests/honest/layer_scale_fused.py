# honest: a branch that is scaled by 1e-6
# task: layer_scale
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
#include <cmath>

static float dot(const float* row, const float* weight, float bias, int64_t n) {
  float sum = bias;
  for (int64_t k = 0; k < n; ++k) sum += row[k] * weight[k];
  return sum;
}

void add(tvm::ffi::TensorView x, tvm::ffi::TensorView m, tvm::ffi::TensorView b, tvm::ffi::TensorView s,
         tvm::ffi::TensorView out) {
  const int64_t rows = x.size(0), n = x.size(1);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < n; ++j)
      w(out)[i * n + j] = std::cos(f(x)[i * n + j]) + f(s)[j] * std::tanh(dot(f(x) + i * n, f(m) + j * n, f(b)[j], n));
}
"""
mod = load_inline(name="layer_scale", cpp_sources=SOURCE, functions="add")


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = nn.Linear(size, size)
        self.scale = nn.Parameter(1e-6 * torch.ones(size))

    def forward(self, x):
        out = torch.empty_like(x)
        mod.add(x, self.linear.weight, self.linear.bias, self.scale, out)
        return out
