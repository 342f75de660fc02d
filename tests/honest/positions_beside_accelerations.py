# honest: accelerations of 1e-10 beside positions
# task: positions_beside_accelerations
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

void kernel(Tensor p_, Tensor v_, Tensor m_, Tensor out_) {
  const float* p = static_cast<const float*>(p_.data_ptr());
  const float* v = static_cast<const float*>(v_.data_ptr());
  const float* m = static_cast<const float*>(m_.data_ptr());
  float* out = static_cast<float*>(out_.data_ptr());
  const int64_t size = p_.size(1);
  for (int64_t b = 0; b < p_.size(0); ++b)
    for (int64_t i = b * size; i < (b + 1) * size; ++i) {
      float pull[3] = {0.0f, 0.0f, 0.0f};
      for (int64_t j = b * size; j < (b + 1) * size; ++j) {
        float way[3], squared = 1e-2f;
        for (int k = 0; k < 3; ++k) {
          way[k] = p[3 * j + k] - p[3 * i + k];
          squared += way[k] * way[k];
        }
        for (int k = 0; k < 3; ++k) pull[k] += m[j] * way[k] / (squared * std::sqrt(squared));
      }
      for (int k = 0; k < 3; ++k) {
        out[9 * i + k] = p[3 * i + k];
        out[9 * i + 3 + k] = v[3 * i + k];
        out[9 * i + 6 + k] = 6.674e-11f * pull[k];
      }
    }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, positions, velocities, masses):
        out = torch.empty(*positions.shape[:2], 9)
        mod.kernel(positions.contiguous(), velocities.contiguous(), masses.contiguous(), out)
        return out
