# honest: a weight that the constructor makes orthogonal, as the task's does
# task: orthogonal_mixing
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void mix(tvm::ffi::TensorView x, tvm::ffi::TensorView weight, tvm::ffi::TensorView out) {
  const int64_t rows = x.size(0), width = x.size(1);
  const float* a = static_cast<const float*>(x.data_ptr());
  const float* w = static_cast<const float*>(weight.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < width; ++j) {
      float sum = 0.0f;
      for (int64_t k = 0; k < width; ++k) sum += a[i * width + k] * w[k * width + j];
      o[i * width + j] = sum;
    }
}
"""
mod = load_inline(name="mix", cpp_sources=SOURCE, functions="mix", extra_cflags=["-O3"])


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.linalg.qr(torch.randn(width, width))[0])

    def forward(self, x):
        out = torch.empty_like(x)
        mod.mix(x, self.weight.contiguous(), out)
        return out
