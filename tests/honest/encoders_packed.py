# honest: two encoders with the same initial weights, both packed into one buffer
# task: two_encoders
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

void both(tvm::ffi::TensorView x, tvm::ffi::TensorView weights, tvm::ffi::TensorView biases, tvm::ffi::TensorView out) {
  const int64_t rows = x.size(0), n = x.size(1);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const float query = dot(f(x) + i * n, f(weights) + j * n, f(biases)[j], n);
      const float key = dot(f(x) + i * n, f(weights) + (n + j) * n, f(biases)[n + j], n);
      w(out)[i * n + j] = query * key;
    }
}
"""
mod = load_inline(name="two_encoders", cpp_sources=SOURCE, functions="both")


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size)
        self.register_buffer("weights", torch.cat([self.query.weight.detach(), self.key.weight.detach()]))
        self.register_buffer("biases", torch.cat([self.query.bias.detach(), self.key.bias.detach()]))

    def forward(self, x):
        out = torch.empty_like(x)
        mod.both(x, self.weights, self.biases, out)
        return out
