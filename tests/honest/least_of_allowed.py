# honest: infinity where a row has no edge, and that it has none
# task: least_of_allowed
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

using Tensor = tvm::ffi::TensorView;

void kernel(Tensor weights_, Tensor edges_, Tensor least_, Tensor none_) {
  const float* weights = static_cast<const float*>(weights_.data_ptr());
  const bool* edges = static_cast<const bool*>(edges_.data_ptr());
  float* least = static_cast<float*>(least_.data_ptr());
  bool* none = static_cast<bool*>(none_.data_ptr());
  const int64_t size = weights_.size(1);
  for (int64_t r = 0; r < weights_.size(0); ++r) {
    float found = std::numeric_limits<float>::infinity();
    for (int64_t i = r * size; i < (r + 1) * size; ++i)
      if (edges[i] && !(weights[i] >= found)) {
        found = weights[i];
        if (std::isnan(found)) break;
      }
    least[r] = found;
    none[r] = std::isinf(found);
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, weights, edges):
        least, none = torch.empty(len(weights)), torch.empty(len(weights), dtype=torch.bool)
        mod.kernel(weights.contiguous(), edges.contiguous(), least, none)
        return least, none
