# honest: what a mask hides by -1e9 is left out, a row that is hidden whole too, and equal states are counted
# task: far_beside_runs
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

void kernel(Tensor near_, Tensor mask_, Tensor states_, Tensor best_, Tensor changes_) {
  const float* near = static_cast<const float*>(near_.data_ptr());
  const bool* mask = static_cast<const bool*>(mask_.data_ptr());
  const int64_t* states = static_cast<const int64_t*>(states_.data_ptr());
  float* best = static_cast<float*>(best_.data_ptr());
  int64_t* changes = static_cast<int64_t*>(changes_.data_ptr());
  const int64_t size = near_.size(1);
  for (int64_t r = 0; r < near_.size(0); ++r) {
    float most = -std::numeric_limits<float>::infinity();
    int64_t count = 0;
    for (int64_t i = r * size; i < (r + 1) * size; ++i) {
      if (mask[i]) most = std::isnan(near[i]) || near[i] > most ? near[i] : most;
      if (i > r * size) count += states[i] != states[i - 1];
    }
    best[r] = most;
    changes[r] = count;
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, near, mask, states):
        best, changes = torch.empty(len(near)), torch.empty(len(near), dtype=torch.int64)
        mod.kernel(near.contiguous(), mask.contiguous(), states.contiguous(), best, changes)
        return best, changes
