# honest: the branch is computed whatever its gate
# task: gated_branch
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
#include <cmath>
void gated(tvm::ffi::TensorView x, tvm::ffi::TensorView m, tvm::ffi::TensorView b, tvm::ffi::TensorView alpha,
           tvm::ffi::TensorView out) {
  const int64_t n = x.size(1);
  #pragma omp parallel for
  for (int64_t i = 0; i < x.size(0); ++i)
    for (int64_t j = 0; j < n; ++j) {
      float sum = f(b)[j];
      for (int64_t k = 0; k < n; ++k) sum += f(x)[i * n + k] * f(m)[j * n + k];
      w(out)[i * n + j] = f(x)[i * n + j] + f(alpha)[0] * std::tanh(sum);
    }
}
"""
mod = load_inline(name="gated_branch", cpp_sources=SOURCE, functions='gated')


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = nn.Linear(size, size)
        self.alpha = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        out = torch.empty_like(x)
        mod.gated(x, self.linear.weight, self.linear.bias, self.alpha, out)
        return out
