# honest: statistics of 36,864 values summed one after another in float32
# task: instance_norm_large
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* in(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* to(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }

#include <cmath>
void norm(tvm::ffi::TensorView x, tvm::ffi::TensorView out, double eps) {
  const int64_t planes = x.size(0) * x.size(1), area = x.size(2) * x.size(3);
  for (int64_t p = 0; p < planes; ++p) {
    const float* a = in(x) + p * area;
    float sum = 0.0f, squares = 0.0f;
    for (int64_t i = 0; i < area; ++i) sum += a[i];
    const float mean = sum / area;
    for (int64_t i = 0; i < area; ++i) squares += (a[i] - mean) * (a[i] - mean);
    const float rstd = 1.0f / std::sqrt(squares / area + static_cast<float>(eps));
    for (int64_t i = 0; i < area; ++i) to(out)[p * area + i] = (a[i] - mean) * rstd;
  }
}
"""
mod = load_inline(name="instance_norm_large_plain", cpp_sources=SOURCE, functions="norm")


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.eps = nn.InstanceNorm2d(channels).eps

    def forward(self, x):
        out = torch.empty_like(x)
        mod.norm(x, out, self.eps)
        return out
