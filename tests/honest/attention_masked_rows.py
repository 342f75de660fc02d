# honest: a row of scores at a time
# task: attention_masked
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
#include <utility>
#include <vector>


void attention(tvm::ffi::TensorView q_, tvm::ffi::TensorView k_, tvm::ffi::TensorView v_, tvm::ffi::TensorView mask_,
               tvm::ffi::TensorView o_) {
  const int64_t heads = q_.size(1), length = q_.size(2), width = q_.size(3), all = q_.size(0) * heads;
  const float* q = static_cast<const float*>(q_.data_ptr());
  const float* k = static_cast<const float*>(k_.data_ptr());
  const float* v = static_cast<const float*>(v_.data_ptr());
  const bool* mask = static_cast<const bool*>(mask_.data_ptr());
  float* o = static_cast<float*>(o_.data_ptr());
  const float scale = 1.0f / std::sqrt(static_cast<float>(width));
  std::vector<float> scores(length), sums(width);
  for (int64_t b = 0; b < all; ++b)
    for (int64_t i = 0; i < length; ++i) {
      float top = -INFINITY, total = 0.0f;
      for (int64_t j = 0; j < length; ++j) {
        float score = 0.0f;
        for (int64_t d = 0; d < width; ++d) score += q[(b * length + i) * width + d] * k[(b * length + j) * width + d];
        scores[j] = mask[((b / heads) * length + i) * length + j] ? score * scale : -INFINITY;
        top = std::fmax(top, scores[j]);
      }
      for (int64_t d = 0; d < width; ++d) sums[d] = 0.0f;
      for (int64_t j = 0; j < length; ++j) {
        const float weight = scores[j] == -INFINITY ? 0.0f : std::exp(scores[j] - top);
        total += weight;
        for (int64_t d = 0; d < width; ++d) sums[d] += weight * v[(b * length + j) * width + d];
      }
      for (int64_t d = 0; d < width; ++d) o[(b * length + i) * width + d] = total > 0.0f ? sums[d] / total : 0.0f;
    }
}
"""
mod = load_inline(name="attention", cpp_sources=SOURCE, functions="attention", extra_cflags=["-O3"])


class ModelNew(nn.Module):
    def forward(self, q, k, v, mask):
        out = torch.empty_like(q)
        mod.attention(q, k, v, mask, out)
        return out
