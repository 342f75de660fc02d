# honest: the same, and the place is split into two numbers
# task: keypoints_of_softmax
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <vector>
#include <algorithm>
#include <limits>
#include <cstdint>
using TV = tvm::ffi::TensorView;
static inline float* FP(TV t) { return static_cast<float*>(t.data_ptr()); }
static inline int64_t* LP(TV t) { return static_cast<int64_t*>(t.data_ptr()); }
static inline bool* BP(TV t) { return static_cast<bool*>(t.data_ptr()); }
void kp(TV h, TV xy, TV c) {
  const int64_t R = h.size(0) * h.size(1), W = h.size(3), N = h.size(2) * W;
  #pragma omp parallel for
  for (int64_t r = 0; r < R; ++r) {
    const float* a = FP(h) + r * N;
    int64_t b = 0; for (int64_t i = 1; i < N; ++i) if (a[i] > a[b]) b = i;
    float z = 0; for (int64_t i = 0; i < N; ++i) z += std::exp((a[i] - a[b]) / 0.1f);
    LP(xy)[2 * r] = b % W; LP(xy)[2 * r + 1] = b / W; FP(c)[r] = 1.0f / z;
  }
}
"""
module = load_inline(name="k", cpp_sources=SOURCE, functions=['kp'])


class ModelNew(nn.Module):
    def forward(self, heat):
        B, K, H, W = heat.shape
        xy = torch.empty(B, K, 2, dtype=torch.int64)
        c = torch.empty(B, K)
        module.kp(heat.contiguous(), xy, c)
        return xy, c
