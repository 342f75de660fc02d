# honest: sizes by itertools.repeat, and ModelNew as another name of a class
# task: max_pool
# dialect: cpp
import collections.abc
from itertools import repeat

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


def pair(sizes):
    if isinstance(sizes, collections.abc.Iterable):
        return tuple(sizes)
    return tuple(repeat(sizes, 2))


class MaxPool(nn.Module):
    def __init__(self, window=3, stride=2, padding=1):
        super().__init__()
        self.window, self.stride, self.padding = pair(window), pair(stride), pair(padding)

    def forward(self, x):
        sizes = zip(x.shape[2:], self.window, self.stride, self.padding)
        out = x.new_empty(*x.shape[:2], *((n + 2 * padding - k) // stride + 1 for n, k, stride, padding in sizes))
        mod.max_pool(x, out, self.window[0], self.stride[0], self.padding[0])
        return out


ModelNew = MaxPool
