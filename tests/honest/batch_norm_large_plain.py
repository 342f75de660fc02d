# honest: sums 131,072 values of a channel one after another in float32   
# task: batch_norm_large
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
void batch_norm(tvm::ffi::TensorView x, tvm::ffi::TensorView weight, tvm::ffi::TensorView bias,
                tvm::ffi::TensorView out, double eps) {
  const int64_t batch = x.size(0), channels = x.size(1), area = x.size(2) * x.size(3);
  const float* in = static_cast<const float*>(x.data_ptr());
  const float* w = static_cast<const float*>(weight.data_ptr());
  const float* b = static_cast<const float*>(bias.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  #pragma omp parallel for
  for (int64_t c = 0; c < channels; ++c) {
    float sum = 0.0f, squares = 0.0f;
    for (int64_t n = 0; n < batch; ++n) {
      const float* p = in + (n * channels + c) * area;
      for (int64_t i = 0; i < area; ++i) sum += p[i];
    }
    const float mean = sum / (batch * area);
    for (int64_t n = 0; n < batch; ++n) {
      const float* p = in + (n * channels + c) * area;
      for (int64_t i = 0; i < area; ++i) squares += (p[i] - mean) * (p[i] - mean);
    }
    const float scale = w[c] / std::sqrt(squares / (batch * area) + static_cast<float>(eps));
    const float shift = b[c] - mean * scale;
    for (int64_t n = 0; n < batch; ++n) {
      const float* p = in + (n * channels + c) * area;
      float* q = o + (n * channels + c) * area;
      for (int64_t i = 0; i < area; ++i) q[i] = p[i] * scale + shift;
    }
  }
}
"""
mod = load_inline(name="batch_norm_large_plain", cpp_sources=SOURCE, functions="batch_norm")


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        out = torch.empty_like(x)
        mod.batch_norm(x, self.norm.weight, self.norm.bias, out, self.norm.eps)
        return out
