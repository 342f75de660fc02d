# honest: a product with a parameter without a gradient
# task: mirrored_by_frozen_matrix
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
void multiply(tvm::ffi::TensorView x, tvm::ffi::TensorView w, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  const float* b = static_cast<const float*>(w.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  const int64_t rows = x.numel() / 24;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < 24; ++j) {
      float sum = 0.0f;
      for (int64_t k = 0; k < 24; ++k) sum += a[i * 24 + k] * b[k * 24 + j];
      o[i * 24 + j] = sum;
    }
}
"""
mod = load_inline(name="multiply", cpp_sources=SOURCE, functions="multiply")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.mirror = nn.Parameter(torch.eye(24).flip(0), requires_grad=False)

    def forward(self, x):
        out = torch.empty_like(x)
        mod.multiply(x, self.mirror, out)
        return out
