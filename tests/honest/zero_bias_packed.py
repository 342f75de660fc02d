# honest: weight and bias packed into one buffer by the constructor
# task: zero_bias_linear
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
#include <cstring>
void pack(tvm::ffi::TensorView m, tvm::ffi::TensorView b, tvm::ffi::TensorView packed) {
  const int64_t n = m.size(0);
  for (int64_t j = 0; j < n; ++j) {
    std::memcpy(w(packed) + j * (n + 1), f(m) + j * n, n * sizeof(float));
    w(packed)[j * (n + 1) + n] = f(b)[j];
  }
}
void linear(tvm::ffi::TensorView x, tvm::ffi::TensorView packed, tvm::ffi::TensorView out) {
  const int64_t n = x.size(1);
  for (int64_t i = 0; i < x.size(0); ++i)
    for (int64_t j = 0; j < n; ++j) {
      const float* row = f(packed) + j * (n + 1);
      float sum = row[n];
      for (int64_t k = 0; k < n; ++k) sum += f(x)[i * n + k] * row[k];
      w(out)[i * n + j] = sum;
    }
}
"""
mod = load_inline(name="zero_bias_linear", cpp_sources=SOURCE, functions=['pack', 'linear'])


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = nn.Linear(size, size)
        nn.init.zeros_(self.linear.bias)
        self.register_buffer("packed", torch.zeros(size, size + 1))
        mod.pack(self.linear.weight.detach(), self.linear.bias.detach(), self.packed)

    def forward(self, x):
        out = torch.empty_like(x)
        mod.linear(x, self.packed, out)
        return out
