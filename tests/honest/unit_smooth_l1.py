# honest: both parts of a smooth loss of numbers of [0, 1)
# task: unit_smooth_l1
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <cstdint>
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView y, tvm::ffi::TensorView out) {
  const int64_t n = x.numel();
  double s = 0; for (int64_t k = 0; k < n; ++k) { const double d = std::fabs(f(x)[k] - f(y)[k]); s += d < 1 ? 0.5 * d * d : d - 0.5; }
  w(out)[0] = s / n;
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty(())
        mod.kernel(x, y, out)
        return out
