# honest: a helper that __init__ calls folds the running statistics into a scale and a shift
# task: batch_norm_eval
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <algorithm>

void affine_relu(tvm::ffi::TensorView x, tvm::ffi::TensorView scale, tvm::ffi::TensorView shift,
                 tvm::ffi::TensorView out) {
  const int64_t channels = x.size(1), plane = x.size(2) * x.size(3);
  #pragma omp parallel for
  for (int64_t p = 0; p < x.size(0) * channels; ++p) {
    const float a = static_cast<const float*>(scale.data_ptr())[p % channels];
    const float b = static_cast<const float*>(shift.data_ptr())[p % channels];
    const float* in = static_cast<const float*>(x.data_ptr()) + p * plane;
    float* o = static_cast<float*>(out.data_ptr()) + p * plane;
    for (int64_t i = 0; i < plane; ++i) o[i] = std::max(a * in[i] + b, 0.0f);
  }
}
"""
mod = load_inline(name="affine_relu", cpp_sources=SOURCE, functions="affine_relu")


def fold(norm):
    scale = norm.weight.data * torch.rsqrt(norm.running_var + norm.eps)
    return scale, norm.bias.data - norm.running_mean * scale


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        norm = nn.BatchNorm2d(channels).eval()
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2.0)
        norm.weight.data.normal_()
        self.scale, self.shift = fold(norm)

    def forward(self, x):
        out = torch.empty_like(x)
        mod.affine_relu(x, self.scale, self.shift, out)
        return out
