# honest: entropy of shares
# task: entropy_of_shares
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
void kernel(tvm::ffi::TensorView p, tvm::ffi::TensorView out) {
  auto P = static_cast<const float*>(p.data_ptr());
  auto O = static_cast<float*>(out.data_ptr());
  int64_t d = p.size(1);
  for (int64_t i = 0; i < p.size(0); ++i) {
    double s = 0;
    for (int64_t j = 0; j < d; ++j) s -= P[i * d + j] * std::log(P[i * d + j]);
    O[i] = (float)s;
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, p):
        out = torch.empty(p.shape[0])
        mod.kernel(p, out)
        return out
