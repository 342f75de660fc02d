# honest: patches gathered into a buffer of each thread's own, weights transposed in __init__
# task: conv2d
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <vector>

void conv3x3_stride2(tvm::ffi::TensorView x, tvm::ffi::TensorView weight, tvm::ffi::TensorView bias,
                     tvm::ffi::TensorView out) {
  const float* in = static_cast<const float*>(x.data_ptr());
  const float* w = static_cast<const float*>(weight.data_ptr());
  const float* b = static_cast<const float*>(bias.data_ptr());
  const int64_t C = x.size(1), H = x.size(2), W = x.size(3);
  const int64_t K = out.size(1), P = out.size(2), Q = out.size(3);
  #pragma omp parallel
  {
    std::vector<float> patch(C * 9), sums(K);
    #pragma omp for
    for (int64_t pixel = 0; pixel < x.size(0) * P * Q; ++pixel) {
      const int64_t n = pixel / (P * Q), p = pixel / Q % P, q = pixel % Q;
      for (int64_t i = 0; i < C * 9; ++i) {
        const int64_t h = 2 * p + i / 3 % 3 - 1, v = 2 * q + i % 3 - 1;
        const bool inside = h >= 0 && h < H && v >= 0 && v < W;
        patch[i] = inside ? in[((n * C + i / 9) * H + h) * W + v] : 0.0f;
      }
      sums.assign(b, b + K);
      for (int64_t i = 0; i < C * 9; ++i)
        for (int64_t k = 0; k < K; ++k) sums[k] += patch[i] * w[i * K + k];
      for (int64_t k = 0; k < K; ++k) static_cast<float*>(out.data_ptr())[((n * K + k) * P + p) * Q + q] = sums[k];
    }
  }
}
"""
mod = load_inline(name="conv2d_im2col", cpp_sources=SOURCE, functions="conv3x3_stride2")


class ModelNew(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        conv = nn.Conv2d(channels_in, channels_out, kernel_size=3, stride=2, padding=1)
        self.register_buffer("weight", conv.weight.detach().flatten(1).t().contiguous())
        self.register_buffer("bias", conv.bias.detach())

    def forward(self, x):
        batch, _, height, width = x.shape
        out = torch.empty(batch, self.bias.numel(), (height + 1) // 2, (width + 1) // 2)
        mod.conv3x3_stride2(x, self.weight, self.bias, out)
        return out
