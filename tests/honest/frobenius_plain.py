# honest: 524,288 squares summed one after another in float32
# task: frobenius
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* in(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* to(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }

#include <cmath>
void norm(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const int64_t n = x.numel();
  float sum = 0.0f;
  for (int64_t i = 0; i < n; ++i) sum += in(x)[i] * in(x)[i];
  const float scale = 1.0f / std::sqrt(sum);
  for (int64_t i = 0; i < n; ++i) to(out)[i] = in(x)[i] * scale;
}
"""
mod = load_inline(name="frobenius_plain", cpp_sources=SOURCE, functions="norm")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.norm(x, out)
        return out
