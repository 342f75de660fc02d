# honest: a gain below zero is zero
# task: rectified_gain
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cstdint>
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView gain, tvm::ffi::TensorView out) {
  const int64_t D = x.size(1);
  for (int64_t k = 0; k < x.numel(); ++k) w(out)[k] = f(x)[k] * (f(gain)[k % D] > 0 ? f(gain)[k % D] : 0.0f);
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(48))

    def forward(self, x):
        out = torch.empty_like(x)
        mod.kernel(x, self.gain, out)
        return out
