# honest: a Sequential of the file's own layers is called
# task: bias_silu_scale
# dialect: cpp
from collections import OrderedDict

import torch
from torch import nn
from tvm_ffi.cpp import load_inline

mod = load_inline(
    name="steps",
    cpp_sources="""
#include <cmath>
using tvm::ffi::TensorView;
static float at(TensorView p, int64_t i, TensorView x) {
  return static_cast<const float*>(p.data_ptr())[i / (x.size(2) * x.size(3)) % x.size(1)];
}
void bias_silu_(TensorView x, TensorView bias, TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) {
    const float v = a[i] + at(bias, i, x);
    static_cast<float*>(out.data_ptr())[i] = v / (1.0f + std::exp(-v));
  }
}
void scale_(TensorView x, TensorView scale) {
  for (int64_t i = 0; i < x.numel(); ++i) static_cast<float*>(x.data_ptr())[i] *= at(scale, i, x);
}
""",
    functions=["bias_silu_", "scale_"],
)


class BiasSilu(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(channels, 1, 1))

    def forward(self, x):
        out = torch.empty_like(x)
        mod.bias_silu_(x, self.bias, out)
        return out


class Scale(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(channels, 1, 1))

    def forward(self, x):
        mod.scale_(x, self.scale)
        return x


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.steps = nn.Sequential(OrderedDict([("bias", BiasSilu(channels)), ("scale", Scale(channels))]))

    def forward(self, x):
        return self.steps(x)
