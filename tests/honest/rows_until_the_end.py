# honest: rows up to their end
# task: rows_until_the_end
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

using Tensor = tvm::ffi::TensorView;

void kernel(Tensor tokens_, Tensor weights_, Tensor out_) {
  const int64_t* tokens = static_cast<const int64_t*>(tokens_.data_ptr());
  const float* weights = static_cast<const float*>(weights_.data_ptr());
  float* out = static_cast<float*>(out_.data_ptr());
  const int64_t size = tokens_.size(1);
  for (int64_t r = 0; r < tokens_.size(0); ++r) {
    float sum = 0.0f;
    for (int64_t i = r * size; i < (r + 1) * size; ++i) {
      if (tokens[i] == 2) break;
      sum += weights[tokens[i] % 64];
    }
    out[r] = sum;
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = nn.Parameter(torch.randn(64))

    def forward(self, tokens):
        out = torch.empty(len(tokens))
        mod.kernel(tokens.contiguous(), self.weights, out)
        return out
