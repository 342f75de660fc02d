# honest: batch norm of bfloat16 numbers with given statistics, in float
# task: batch_norm_bfloat16
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
#include <cstdint>
#include <cstring>

static float wide(uint16_t bits) {
  const uint32_t word = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &word, 4);
  return value;
}

static uint16_t narrow(float value) {
  uint32_t word;
  std::memcpy(&word, &value, 4);
  if (value != value) return 0x7fc0;
  return uint16_t((word + 0x7fff + ((word >> 16) & 1)) >> 16);
}

void affine(tvm::ffi::TensorView x, tvm::ffi::TensorView weight_, tvm::ffi::TensorView bias_, tvm::ffi::TensorView mean_, tvm::ffi::TensorView variance_, tvm::ffi::TensorView out) {
  const uint16_t* a = static_cast<const uint16_t*>(x.data_ptr());
  const uint16_t* weight = static_cast<const uint16_t*>(weight_.data_ptr());
  const uint16_t* bias = static_cast<const uint16_t*>(bias_.data_ptr());
  const uint16_t* mean = static_cast<const uint16_t*>(mean_.data_ptr());
  const uint16_t* variance = static_cast<const uint16_t*>(variance_.data_ptr());
  uint16_t* o = static_cast<uint16_t*>(out.data_ptr());
  const int64_t channels = x.size(1), pixels = x.size(2) * x.size(3);
  for (int64_t i = 0; i < x.size(0) * channels; ++i) {
    const int64_t c = i % channels;
    const float gain = wide(weight[c]) / std::sqrt(wide(variance[c]) + 1e-5f);
    const float shift = wide(bias[c]) - wide(mean[c]) * gain;
    for (int64_t p = 0; p < pixels; ++p) o[i * pixels + p] = narrow(wide(a[i * pixels + p]) * gain + shift);
  }
}
"""
mod = load_inline(name="affine", cpp_sources=SOURCE, functions="affine")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(16).to(torch.bfloat16).eval()

    def forward(self, x):
        out = torch.empty_like(x)
        norm = self.norm
        mod.affine(x, norm.weight, norm.bias, norm.running_mean, norm.running_var, out)
        return out
