# honest: round quarters
# task: round_quarters
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  auto X = static_cast<const float*>(x.data_ptr());
  auto O = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) O[i] = std::nearbyint(X[i] * 4.0f) / 4.0f;
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.kernel(x, out)
        return out
