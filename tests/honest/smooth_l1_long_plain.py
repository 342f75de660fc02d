# honest: 524,288 losses summed one after another in float32
# task: smooth_l1_long
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* in(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* to(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }

#include <cmath>
void loss(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView out) {
  const int64_t n = a.numel();
  float total = 0.0f;
  for (int64_t i = 0; i < n; ++i) {
    const float d = std::fabs(in(a)[i] - in(b)[i]);
    total += d < 1.0f ? 0.5f * d * d : d - 0.5f;
  }
  *to(out) = total / n;
}
"""
mod = load_inline(name="smooth_l1_long_plain", cpp_sources=SOURCE, functions="loss")


class ModelNew(nn.Module):
    def forward(self, a, b):
        out = torch.empty(())
        mod.loss(a, b, out)
        return out
