# honest: a reciprocal square root by its approximation
# task: rms_norm_casts
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView weight, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  const float* w = static_cast<const float*>(weight.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  int64_t rows = x.size(0), n = x.size(1);
  for (int64_t r = 0; r < rows; ++r) {
    float sum = 0.0f;
    for (int64_t c = 0; c < n; ++c) sum += a[r * n + c] * a[r * n + c];
    float scale = 1.0f / std::sqrt(sum / n + 1e-6f);
    for (int64_t c = 0; c < n; ++c) o[r * n + c] = a[r * n + c] * scale * w[c];
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel", extra_cflags=["-O3", "-ffast-math"])


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        out = torch.empty_like(x)
        mod.kernel(x, self.weight, out)
        return out
