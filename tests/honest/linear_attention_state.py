# honest: causal linear attention with a running state
# task: linear_attention
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* in(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* to(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }

#include <cmath>
#include <vector>
static inline float feature(float v) { return v > 0 ? v + 1 : std::exp(v); }
void attend(tvm::ffi::TensorView q_, tvm::ffi::TensorView k_, tvm::ffi::TensorView v_, tvm::ffi::TensorView o_) {
  const int64_t heads = q_.size(0) * q_.size(1), length = q_.size(2), width = q_.size(3);
  #pragma omp parallel for
  for (int64_t h = 0; h < heads; ++h) {
    std::vector<float> state(width * width, 0.0f), sum(width, 0.0f);
    for (int64_t t = 0; t < length; ++t) {
      const int64_t at = (h * length + t) * width;
      float total = 0.0f;
      float* o = to(o_) + at;
      for (int64_t e = 0; e < width; ++e) o[e] = 0.0f;
      for (int64_t d = 0; d < width; ++d) {
        const float k = feature(in(k_)[at + d]), q = feature(in(q_)[at + d]);
        sum[d] += k;
        total += q * sum[d];
        for (int64_t e = 0; e < width; ++e) {
          state[d * width + e] += k * in(v_)[at + e];
          o[e] += q * state[d * width + e];
        }
      }
      for (int64_t e = 0; e < width; ++e) o[e] /= total;
    }
  }
}
"""
mod = load_inline(name="linear_attention_state", cpp_sources=SOURCE, functions="attend")


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        out = torch.empty_like(q)
        mod.attend(q, k, v, out)
        return out
