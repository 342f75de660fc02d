# honest: a slope may be any number
# task: slope_by_hand
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cstdint>
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView slope, tvm::ffi::TensorView out) {
  const float a = f(slope)[0];
  for (int64_t k = 0; k < x.numel(); ++k) w(out)[k] = f(x)[k] > 0 ? f(x)[k] : a * f(x)[k];
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.slope = nn.Parameter(torch.tensor([0.1]))

    def forward(self, x):
        out = torch.empty_like(x)
        mod.kernel(x, self.slope, out)
        return out
