# honest: max-pooling whose maximum starts at minus infinity, with the window as template arguments
# task: max_pool
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <algorithm>
#include <limits>

template <int WINDOW, int STRIDE, int PADDING>
void pool(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const int64_t H = x.size(2), W = x.size(3), P = out.size(2), Q = out.size(3);
  #pragma omp parallel for
  for (int64_t plane = 0; plane < x.size(0) * x.size(1); ++plane) {
    const float* in = static_cast<const float*>(x.data_ptr()) + plane * H * W;
    float* o = static_cast<float*>(out.data_ptr()) + plane * P * Q;
    for (int64_t p = 0; p < P; ++p)
      for (int64_t q = 0; q < Q; ++q) {
        float top = -std::numeric_limits<float>::infinity();
        for (int64_t h = std::max<int64_t>(p * STRIDE - PADDING, 0); h < std::min(p * STRIDE - PADDING + WINDOW, H); ++h)
          for (int64_t w = std::max<int64_t>(q * STRIDE - PADDING, 0); w < std::min(q * STRIDE - PADDING + WINDOW, W); ++w)
            top = std::max(top, in[h * W + w]);
        o[p * Q + q] = top;
      }
  }
}

void max_pool(tvm::ffi::TensorView x, tvm::ffi::TensorView out) { pool<3, 2, 1>(x, out); }
"""
mod = load_inline(name="max_pool", cpp_sources=SOURCE, functions="max_pool")


class ModelNew(nn.Module):
    def forward(self, x):
        batch, channels, height, width = x.size()
        out = x.new_empty((batch, channels, (height + 1) // 2, (width + 1) // 2))
        mod.max_pool(x, out)
        return out
