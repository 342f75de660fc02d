# honest: shape arithmetic in helpers: keyword-only arguments, defaults, a walrus, a static method
# task: max_pool
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <algorithm>
#include <limits>
void max_pool(tvm::ffi::TensorView x, tvm::ffi::TensorView out, int64_t window, int64_t stride, int64_t padding) {
  const int64_t H = x.size(2), W = x.size(3), P = out.size(2), Q = out.size(3);
  #pragma omp parallel for
  for (int64_t plane = 0; plane < x.size(0) * x.size(1); ++plane)
    for (int64_t p = 0; p < P; ++p)
      for (int64_t q = 0; q < Q; ++q) {
        float best = -std::numeric_limits<float>::infinity();
        for (int64_t h = std::max<int64_t>(p * stride - padding, 0); h < std::min(p * stride - padding + window, H); ++h)
          for (int64_t w = std::max<int64_t>(q * stride - padding, 0); w < std::min(q * stride - padding + window, W); ++w) {
            const float v = static_cast<const float*>(x.data_ptr())[(plane * H + h) * W + w];
            if (!(v <= best)) best = v;
          }
        static_cast<float*>(out.data_ptr())[(plane * P + p) * Q + q] = best;
      }
}
"""
mod = load_inline(name="max_pool", cpp_sources=SOURCE, functions="max_pool")


def pooled(length, *, window=3, stride=2, padding=1):
    return (length + 2 * padding - window) // stride + 1


class ModelNew(nn.Module):
    options = {"window": 3, "stride": 2, "padding": 1}

    @staticmethod
    def shape_of(x, options):
        *outer, height, width = x.shape
        return [*outer, pooled(height, **options), pooled(width, **options)]

    def forward(self, x):
        out = x.new_empty(self.shape_of(x, self.options))
        if (count := out.numel()) > 0 and not count < 0:
            mod.max_pool(x, out, *self.options.values())
        return out
