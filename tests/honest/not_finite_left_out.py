# honest: a mean of what is finite
# task: not_finite_left_out
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>

void means(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  int64_t rows = x.size(0), n = x.size(1);
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0.0;
    int64_t known = 0;
    for (int64_t i = 0; i < n; ++i)
      if (std::isfinite(a[r * n + i])) sum += a[r * n + i], ++known;
    o[r] = static_cast<float>(sum / (known ? known : 1));
  }
}
"""
mod = load_inline(name="means", cpp_sources=SOURCE, functions="means")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.size(0), dtype=x.dtype)
        mod.means(x, out)
        return out
