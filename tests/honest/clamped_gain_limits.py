# honest: gains within limits
# task: clamped_gain
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <cstdint>
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView gain, tvm::ffi::TensorView out) {
  const int64_t n = x.numel();
  for (int64_t k = 0; k < n; ++k) { const float v = f(x)[k]; w(out)[k] = v * std::fmin(std::fmax(f(gain)[k % 512], 0.0f), 6.0f) + 1; }
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(512))

    def forward(self, x):
        out = torch.empty_like(x)
        mod.kernel(x, self.gain, out)
        return out
