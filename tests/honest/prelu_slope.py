# honest: the slope as the module has it
# task: prelu
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
void prelu(tvm::ffi::TensorView x, tvm::ffi::TensorView slope, tvm::ffi::TensorView out) {
  for (int64_t i = 0; i < x.size(0); ++i) w(out)[i] = f(x)[i] < 0.0f ? f(slope)[0] * f(x)[i] : f(x)[i];
}
"""
mod = load_inline(name="prelu", cpp_sources=SOURCE, functions='prelu')


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.activation = nn.PReLU()

    def forward(self, x):
        out = torch.empty_like(x)
        mod.prelu(x, self.activation.weight, out)
        return out
