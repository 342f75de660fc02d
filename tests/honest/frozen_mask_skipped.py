# honest: a mask that is not trained decides which weights are read
# task: frozen_mask
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
static float dot(const float* row, const float* weight, float bias, int64_t n) {
  float sum = bias;
  for (int64_t k = 0; k < n; ++k) sum += row[k] * weight[k];
  return sum;
}

void matmul(tvm::ffi::TensorView x, tvm::ffi::TensorView m, tvm::ffi::TensorView out) {
  const int64_t rows = x.size(0), n = x.size(1);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < n; ++j) w(out)[i * n + j] = dot(f(x) + i * n, f(m) + j * n, 0.0f, j + 1);
}
"""
mod = load_inline(name="frozen_mask", cpp_sources=SOURCE, functions="matmul")


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size, size) / size**0.5)

    def forward(self, x):
        out = torch.empty_like(x)
        mod.matmul(x, self.weight, out)
        return out
