# honest: the running statistics as they are
# task: fresh_batch_norm
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
#include <cmath>
void norm(tvm::ffi::TensorView x, tvm::ffi::TensorView gain, tvm::ffi::TensorView shift, tvm::ffi::TensorView mean,
          tvm::ffi::TensorView var, tvm::ffi::TensorView out) {
  const int64_t channels = x.size(1), plane = x.size(2) * x.size(3);
  for (int64_t i = 0; i < x.numel(); ++i) {
    const int64_t c = i / plane % channels;
    w(out)[i] = (f(x)[i] - f(mean)[c]) / std::sqrt(f(var)[c] + 1e-5f) * f(gain)[c] + f(shift)[c];
  }
}
"""
mod = load_inline(name="fresh_batch_norm", cpp_sources=SOURCE, functions='norm')


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels).eval()

    def forward(self, x):
        norm = self.norm
        out = torch.empty_like(x)
        mod.norm(x, norm.weight, norm.bias, norm.running_mean, norm.running_var, out)
        return out
