# honest: column by column, from the lower half
# task: cholesky
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
#include <cmath>
void cholesky(tvm::ffi::TensorView a, tvm::ffi::TensorView out) {
  const int64_t n = a.size(0);
  float* l = w(out);
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = 0; i < n; ++i) {
      if (i < j) { l[i * n + j] = 0.0f; continue; }
      float sum = f(a)[i * n + j];
      for (int64_t k = 0; k < j; ++k) sum -= l[i * n + k] * l[j * n + k];
      l[i * n + j] = i == j ? std::sqrt(sum) : sum / l[j * n + j];
    }
}
"""
mod = load_inline(name="cholesky", cpp_sources=SOURCE, functions='cholesky')


class ModelNew(nn.Module):
    def forward(self, a):
        out = torch.empty_like(a)
        mod.cholesky(a, out)
        return out
