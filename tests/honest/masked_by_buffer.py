# honest: a product with a buffer of zeros and ones
# task: masked_by_buffer
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void multiply(tvm::ffi::TensorView x, tvm::ffi::TensorView mask, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  const float* m = static_cast<const float*>(mask.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) o[i] = a[i] * m[i];
}
"""
mod = load_inline(name="multiply", cpp_sources=SOURCE, functions="multiply")


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("mask", torch.tril(torch.ones(size, size)))

    def forward(self, x):
        out = torch.empty_like(x)
        mod.multiply(x.contiguous(), self.mask, out)
        return out
