# honest: a step that is taken where the gradient is finite
# task: step_if_finite
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <cstdint>
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView y, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  const float* b = static_cast<const float*>(y.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  const int64_t n = x.numel();
  bool finite = true;
  for (int64_t i = 0; i < n; ++i) finite &= static_cast<bool>(std::isfinite(b[i]));
  for (int64_t i = 0; i < n; ++i) o[i] = finite ? a[i] - 0.1f * b[i] : a[i];
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        mod.kernel(x, y, out)
        return out
