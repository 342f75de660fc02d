# honest: a direct convolution with stride and padding, its parameters declared by nn.Conv2d
# task: conv2d
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
using tvm::ffi::TensorView;

void conv2d(TensorView x, TensorView weight, TensorView bias, TensorView out, int64_t stride, int64_t padding) {
  const float* in = static_cast<const float*>(x.data_ptr());
  const float* w = static_cast<const float*>(weight.data_ptr());
  const float* b = static_cast<const float*>(bias.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  const int64_t C = x.size(1), H = x.size(2), W = x.size(3), R = weight.size(2), S = weight.size(3);
  #pragma omp parallel for collapse(2)
  for (int64_t n = 0; n < out.size(0); ++n)
    for (int64_t k = 0; k < out.size(1); ++k)
      for (int64_t p = 0; p < out.size(2); ++p)
        for (int64_t q = 0; q < out.size(3); ++q) {
          float sum = b[k];
          for (int64_t c = 0; c < C; ++c)
            for (int64_t r = 0; r < R; ++r)
              for (int64_t s = 0; s < S; ++s) {
                const int64_t h = p * stride + r - padding, v = q * stride + s - padding;
                if (h < 0 || h >= H || v < 0 || v >= W) continue;
                sum += in[((n * C + c) * H + h) * W + v] * w[((k * C + c) * R + r) * S + s];
              }
          o[((n * out.size(1) + k) * out.size(2) + p) * out.size(3) + q] = sum;
        }
}
"""
mod = load_inline(name="conv2d", cpp_sources=SOURCE, functions="conv2d")


class ModelNew(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, kernel_size=3, stride=2, padding=1)

    def forward(self, x):
        height, width = ((size - 1) // 2 + 1 for size in x.shape[2:])
        out = x.new_empty(x.shape[0], self.conv.out_channels, height, width)
        mod.conv2d(x, self.conv.weight, self.conv.bias, out, 2, 1)
        return out
