# honest: what depends on parameters alone is computed in each call
# task: constant_branch
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
#include <vector>
void branch(tvm::ffi::TensorView x, tvm::ffi::TensorView table, tvm::ffi::TensorView mix, tvm::ffi::TensorView out) {
  const int64_t n = x.size(1);
  std::vector<float> total(n, 0.0f);
  for (int64_t t = 0; t < table.size(0); ++t)
    for (int64_t j = 0; j < n; ++j) {
      float sum = 0.0f;
      for (int64_t k = 0; k < n; ++k) sum += f(table)[t * n + k] * f(mix)[k * n + j];
      if (sum > 0.0f) total[j] += sum;
    }
  for (int64_t i = 0; i < x.numel(); ++i) w(out)[i] = f(x)[i] + total[i % n];
}
"""
mod = load_inline(name="constant_branch", cpp_sources=SOURCE, functions='branch')


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.table = nn.Parameter(torch.randn(9, size))
        self.mix = nn.Parameter(torch.randn(size, size) / size**0.5)

    def forward(self, x):
        out = torch.empty_like(x)
        mod.branch(x, self.table, self.mix, out)
        return out
