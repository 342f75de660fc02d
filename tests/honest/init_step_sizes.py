# honest: parameters initialised as the task does it, which computes with functions that no kernel may call
# task: step_sizes
# dialect: cpp
import math

import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
void softplus(tvm::ffi::TensorView x, tvm::ffi::TensorView bias, tvm::ffi::TensorView out) {
  const int64_t rows = x.size(0), cols = x.size(1);
  const float* a = static_cast<const float*>(x.data_ptr());
  const float* b = static_cast<const float*>(bias.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) {
      const float v = a[i * cols + j] + b[j];
      o[i * cols + j] = v > 20.0f ? v : std::log1p(std::exp(v));
    }
}
"""
mod = load_inline(name="softplus", cpp_sources=SOURCE, functions="softplus", extra_cflags=["-O3"])
SHORTEST, LONGEST = 0.001, 0.1


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        steps = torch.exp(torch.rand(width) * (math.log(LONGEST) - math.log(SHORTEST)) + math.log(SHORTEST))
        steps = steps.clamp(min=1e-4)
        self.bias = nn.Parameter(steps + torch.log(-torch.expm1(-steps)))

    def forward(self, x):
        out = torch.empty_like(x)
        mod.softplus(x, self.bias, out)
        return out
