# honest: running statistics read as they are, by a helper module around the kernel
# task: batch_norm_eval
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>

using tvm::ffi::TensorView;

static const float* read(TensorView t) { return static_cast<const float*>(t.data_ptr()); }

void batch_norm_relu(TensorView x, TensorView mean, TensorView var, TensorView weight, TensorView bias, TensorView out,
                     double eps) {
  const int64_t channels = x.size(1), plane = x.size(2) * x.size(3);
  for (int64_t p = 0; p < x.size(0) * channels; ++p) {
    const int64_t c = p % channels;
    const float scale = read(weight)[c] / std::sqrt(read(var)[c] + static_cast<float>(eps));
    for (int64_t i = p * plane; i < (p + 1) * plane; ++i) {
      const float y = (read(x)[i] - read(mean)[c]) * scale + read(bias)[c];
      static_cast<float*>(out.data_ptr())[i] = y > 0.0f ? y : 0.0f;
    }
  }
}
"""
mod = load_inline(name="batch_norm_relu", cpp_sources=SOURCE, functions="batch_norm_relu")


class NormRelu(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.norm = norm

    def forward(self, x):
        norm = self.norm
        out = torch.empty_like(x)
        mod.batch_norm_relu(x, norm.running_mean, norm.running_var, norm.weight, norm.bias, out, norm.eps)
        return out


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        norm = nn.BatchNorm2d(channels).eval()
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2.0)
        norm.weight.data.normal_()
        self.block = NormRelu(norm)

    def forward(self, x):
        return self.block(x)
