# honest: each channel has a slope of any size and sign
# task: prelu_of_channels
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cstdint>
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView slope, tvm::ffi::TensorView out) {
  const int64_t N = x.size(0), C = x.size(1), D = x.size(2);
  for (int64_t k = 0; k < N * C * D; ++k) {
    const float a = f(slope)[k / D % C];
    w(out)[k] = f(x)[k] < 0 ? a * f(x)[k] : f(x)[k];
  }
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.activation = nn.PReLU(24)

    def forward(self, x):
        out = torch.empty_like(x)
        mod.kernel(x, self.activation.weight, out)
        return out
