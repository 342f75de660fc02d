# honest: an integral image in double, so that each window costs four reads
# task: avg_pool
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <algorithm>
#include <vector>

void avg_pool(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const int64_t H = x.size(2), W = x.size(3), P = out.size(2), Q = out.size(3);
  std::vector<double> table((H + 1) * (W + 1), 0.0);
  auto at = [&](int64_t h, int64_t w) -> double& { return table[h * (W + 1) + w]; };
  for (int64_t plane = 0; plane < x.size(0) * x.size(1); ++plane) {
    const float* in = static_cast<const float*>(x.data_ptr()) + plane * H * W;
    float* o = static_cast<float*>(out.data_ptr()) + plane * P * Q;
    for (int64_t h = 0; h < H; ++h)
      for (int64_t w = 0; w < W; ++w) at(h + 1, w + 1) = in[h * W + w] + at(h, w + 1) + at(h + 1, w) - at(h, w);
    for (int64_t p = 0; p < P; ++p)
      for (int64_t q = 0; q < Q; ++q) {
        const int64_t top = std::max<int64_t>(2 * p - 1, 0), bottom = std::min(2 * p + 2, H);
        const int64_t left = std::max<int64_t>(2 * q - 1, 0), right = std::min(2 * q + 2, W);
        const double sum = at(bottom, right) - at(top, right) - at(bottom, left) + at(top, left);
        o[p * Q + q] = static_cast<float>(sum / ((bottom - top) * (right - left)));
      }
  }
}
"""
mod = load_inline(name="avg_pool", cpp_sources=SOURCE, functions="avg_pool")


class ModelNew(nn.Module):
    def forward(self, x):
        batch, channels, height, width = x.shape
        out = torch.empty(batch, channels, (height - 1) // 2 + 1, (width - 1) // 2 + 1)
        mod.avg_pool(x, out)
        return out
