# honest: projections, gates and state in one loop
# task: forget_gates
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
#include <cmath>
void last_state(tvm::ffi::TensorView x, tvm::ffi::TensorView m, tvm::ffi::TensorView b, tvm::ffi::TensorView out) {
  const int64_t steps = x.size(1), n = x.size(2);
  for (int64_t i = 0; i < x.size(0); ++i)
    for (int64_t j = 0; j < n; ++j) {
      float state = 0.0f;
      for (int64_t step = 0; step < steps; ++step) {
        const float* row = f(x) + (i * steps + step) * n;
        float gate = f(b)[j], fresh = f(b)[n + j];
        for (int64_t k = 0; k < n; ++k) {
          gate += row[k] * f(m)[j * n + k];
          fresh += row[k] * f(m)[(n + j) * n + k];
        }
        const float forget = 1.0f / (1.0f + std::exp(-gate));
        state = forget * state + (1.0f - forget) * std::tanh(fresh);
      }
      w(out)[i * n + j] = state;
    }
}
"""
mod = load_inline(name="forget_gates", cpp_sources=SOURCE, functions="last_state")


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.gates = nn.Linear(size, 2 * size)

    def forward(self, x):
        out = torch.empty(x.shape[0], x.shape[2])
        mod.last_state(x, self.gates.weight, self.gates.bias, out)
        return out
