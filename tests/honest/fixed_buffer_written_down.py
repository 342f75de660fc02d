# honest: a buffer that must stay as it is becomes a number
# task: buffer_that_must_stay
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

void clamped(tvm::ffi::TensorView x, tvm::ffi::TensorView m, tvm::ffi::TensorView b, tvm::ffi::TensorView out) {
  const int64_t rows = x.size(0), n = x.size(1);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const float sum = dot(f(x) + i * n, f(m) + j * n, f(b)[j], n);
      w(out)[i * n + j] = sum > 4.0f ? 4.0f : sum;
    }
}
"""
mod = load_inline(name="buffer_that_must_stay", cpp_sources=SOURCE, functions="clamped")


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = nn.Linear(size, size)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x):
        out = torch.empty_like(x)
        mod.clamped(x, self.linear.weight, self.linear.bias, out)
        return out
