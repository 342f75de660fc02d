# honest: lgamma of counts
# task: lgamma_of_counts
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  auto X = static_cast<const float*>(x.data_ptr());
  auto O = static_cast<float*>(out.data_ptr());
  static double table[19];
  for (int i = 0; i < 19; ++i) table[i] = std::lgamma(i + 1.0);
  for (int64_t n = 0; n < x.size(0); ++n) {
    double s = 0;
    for (int64_t d = 0; d < x.size(1); ++d) {
      float v = X[n * x.size(1) + d];
      s += v < 19 ? table[(int)v] : std::lgamma(v + 1.0);
    }
    O[n] = (float)s;
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0])
        mod.kernel(x, out)
        return out
