# honest: a class derived from nn.Conv2d, with its own forward, which gives addresses to its kernel
# task: conv2d
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void conv(int64_t x, int64_t weight, int64_t bias, int64_t out, int64_t n, int64_t in, int64_t features, int64_t h,
          int64_t w, int64_t k, int64_t step, int64_t pad) {
  const float* a = reinterpret_cast<const float*>(x);
  const float* f = reinterpret_cast<const float*>(weight);
  const float* b = reinterpret_cast<const float*>(bias);
  float* o = reinterpret_cast<float*>(out);
  const int64_t oh = (h + 2 * pad - k) / step + 1, ow = (w + 2 * pad - k) / step + 1;
  #pragma omp parallel for collapse(2)
  for (int64_t s = 0; s < n; ++s)
    for (int64_t c = 0; c < features; ++c)
      for (int64_t i = 0; i < oh; ++i)
        for (int64_t j = 0; j < ow; ++j) {
          float sum = b ? b[c] : 0.0f;
          for (int64_t d = 0; d < in; ++d)
            for (int64_t p = 0; p < k; ++p)
              for (int64_t q = 0; q < k; ++q) {
                const int64_t y = i * step + p - pad, z = j * step + q - pad;
                if (y >= 0 && y < h && z >= 0 && z < w)
                  sum += a[((s * in + d) * h + y) * w + z] * f[((c * in + d) * k + p) * k + q];
              }
          o[((s * features + c) * oh + i) * ow + j] = sum;
        }
}
"""
mod = load_inline(name="conv", cpp_sources=SOURCE, functions="conv")


class Convolution(nn.Conv2d):
    def forward(self, x):
        n, channels, height, width = x.shape
        k, step, pad = self.kernel_size[0], self.stride[0], self.padding[0]
        size = [(length + 2 * pad - k) // step + 1 for length in (height, width)]
        out = torch.empty(n, self.out_channels, *size)
        bias = self.bias if self.bias is not None else torch.empty(0)
        sizes = n, channels, self.out_channels, height, width, k, step, pad
        mod.conv(x.data_ptr(), self.weight.data_ptr(), bias.data_ptr(), out.data_ptr(), *sizes)
        return out


class ModelNew(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = Convolution(channels_in, channels_out, kernel_size=3, stride=2, padding=1)

    def forward(self, x):
        return self.conv(x)
