# honest: roll exp
# task: roll_exp
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out, int64_t k) {
  auto X = static_cast<const float*>(x.data_ptr());
  auto O = static_cast<float*>(out.data_ptr());
  int64_t L = x.size(1);
  for (int64_t n = 0; n < x.size(0); ++n)
    for (int64_t j = 0; j < L; ++j) O[n * L + (j + k) % L] = std::exp(X[n * L + j]);
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x, k):
        out = torch.empty_like(x)
        mod.kernel(x, out, k)
        return out
