# honest: a dilated depthwise convolution, one tap after the other over the range where it is inside
# task: conv_depthwise
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <algorithm>

constexpr int64_t TAPS = 5, DILATION = 2, PADDING = 4;

void depthwise(tvm::ffi::TensorView x, tvm::ffi::TensorView weight, tvm::ffi::TensorView bias,
               tvm::ffi::TensorView out) {
  const int64_t channels = x.size(1), length = x.size(2);
  #pragma omp parallel for
  for (int64_t row = 0; row < x.size(0) * channels; ++row) {
    const float* in = static_cast<const float*>(x.data_ptr()) + row * length;
    const float* w = static_cast<const float*>(weight.data_ptr()) + row % channels * TAPS;
    float* o = static_cast<float*>(out.data_ptr()) + row * length;
    std::fill(o, o + length, static_cast<const float*>(bias.data_ptr())[row % channels]);
    for (int64_t tap = 0; tap < TAPS; ++tap) {
      const int64_t shift = tap * DILATION - PADDING;
      const int64_t begin = std::max<int64_t>(0, -shift), end = std::min(length, length - shift);
      for (int64_t i = begin; i < end; ++i) o[i] += w[tap] * in[i + shift];
    }
  }
}
"""
mod = load_inline(name="depthwise", cpp_sources=SOURCE, functions="depthwise")


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv1d(channels, channels, kernel_size=5, padding=4, dilation=2, groups=channels)

    def forward(self, x):
        out = torch.empty_like(x)
        mod.depthwise(x, self.conv.weight, self.conv.bias, out)
        return out
