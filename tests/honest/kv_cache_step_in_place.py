# honest: writes a key and a value to their caches and attends with an online softmax
# task: kv_cache_step
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* in(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* to(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }

#include <cmath>
#include <vector>
void step(tvm::ffi::TensorView q_, tvm::ffi::TensorView k_, tvm::ffi::TensorView v_, tvm::ffi::TensorView keys_,
          tvm::ffi::TensorView values_, tvm::ffi::TensorView o_, int64_t position) {
  const int64_t heads = q_.size(0) * q_.size(1), width = q_.size(2), length = keys_.size(2);
  const float scale = 1.0f / std::sqrt(static_cast<float>(width));
  #pragma omp parallel for
  for (int64_t h = 0; h < heads; ++h) {
    float *keys = to(keys_) + h * length * width, *values = to(values_) + h * length * width, *o = to(o_) + h * width;
    for (int64_t d = 0; d < width; ++d) {
      keys[position * width + d] = in(k_)[h * width + d];
      values[position * width + d] = in(v_)[h * width + d];
    }
    std::vector<float> sum(width, 0.0f);
    float top = -INFINITY, total = 0.0f;
    for (int64_t t = 0; t <= position; ++t) {
      float score = 0.0f;
      for (int64_t d = 0; d < width; ++d) score += in(q_)[h * width + d] * keys[t * width + d];
      score *= scale;
      const float next = std::fmax(top, score), fade = std::exp(top - next), weight = std::exp(score - next);
      total = total * fade + weight;
      for (int64_t d = 0; d < width; ++d) sum[d] = sum[d] * fade + weight * values[t * width + d];
      top = next;
    }
    for (int64_t d = 0; d < width; ++d) o[d] = sum[d] / total;
  }
}
"""
mod = load_inline(name="kv_cache_step_in_place", cpp_sources=SOURCE, functions="step")


class ModelNew(nn.Module):
    def forward(self, q, k, v, keys, values, position):
        out = torch.empty_like(q)
        mod.step(q, k, v, keys, values, out, position)
        return out
