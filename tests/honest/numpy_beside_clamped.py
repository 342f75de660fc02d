# honest: a clamp of what NumPy draws
# task: numpy_beside
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <cstdint>
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView scale, tvm::ffi::TensorView out) {
  const int64_t n = x.numel();
  for (int64_t k = 0; k < n; ++k) w(out)[k] = f(x)[k] * std::fmin(std::fmax(f(scale)[k], -50.0f), 50.0f);
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x, scale):
        out = torch.empty_like(x)
        mod.kernel(x, scale, out)
        return out
