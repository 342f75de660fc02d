# honest: a disc and its rim
# task: disc_of_a_grid
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <algorithm>
#include <cmath>
#include <cstdint>

using Tensor = tvm::ffi::TensorView;

void kernel(Tensor x_, Tensor y_, Tensor inside_, Tensor rest_) {
  const float* x = static_cast<const float*>(x_.data_ptr());
  const float* y = static_cast<const float*>(y_.data_ptr());
  bool* inside = static_cast<bool*>(inside_.data_ptr());
  int64_t* rest = static_cast<int64_t*>(rest_.data_ptr());
  for (int64_t i = 0; i < x_.numel(); ++i) {
    inside[i] = x[i] * x[i] + y[i] * y[i] <= 25.0f;
    const float product = x[i] * y[i] * (x[i] + y[i]);
    rest[i] = static_cast<int64_t>(product - 3.0f * std::floor(product / 3.0f));
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x, y):
        inside, rest = torch.empty(x.shape, dtype=torch.bool), torch.empty(x.shape, dtype=torch.int64)
        mod.kernel(x.contiguous(), y.contiguous(), inside, rest)
        return inside, rest
