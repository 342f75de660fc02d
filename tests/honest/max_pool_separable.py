# honest: columns first into a scratch tensor, rows second: one kernel called twice on transposed views
# task: max_pool
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>

// The maximum of three neighbours at every second position of the last dimension, through the strides of both tensors.
void max3_stride2(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* in = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  const int64_t last = x.size(2), step = x.stride(2);
  for (int64_t a = 0; a < x.size(0); ++a)
    for (int64_t b = 0; b < x.size(1); ++b) {
      const float* row = in + a * x.stride(0) + b * x.stride(1);
      float* to = o + a * out.stride(0) + b * out.stride(1);
      for (int64_t p = 0; p < out.size(2); ++p) {
        float top = row[2 * p * step];
        if (p > 0) top = std::fmax(top, row[(2 * p - 1) * step]);
        if (2 * p + 1 < last) top = std::fmax(top, row[(2 * p + 1) * step]);
        to[p * out.stride(2)] = top;
      }
    }
}
"""
mod = load_inline(name="max3", cpp_sources=SOURCE, functions="max3_stride2")


class ModelNew(nn.Module):
    def forward(self, x):
        batch, channels, height, width = x.shape
        planes = batch * channels
        half = x.new_empty(planes, height, (width + 1) // 2)
        out = x.new_empty(planes, (height + 1) // 2, half.shape[2])
        mod.max3_stride2(x.view(planes, height, width), half)
        mod.max3_stride2(half.transpose(1, 2), out.transpose(1, 2))
        return out.unflatten(0, (batch, channels))
