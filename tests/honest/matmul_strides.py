# honest: transposed operands read in place, as dot products along the contiguous dimension of b
# task: matmul_transposed
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void matmul(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView c) {
  const float* A = static_cast<const float*>(a.data_ptr());
  const float* B = static_cast<const float*>(b.data_ptr());
  for (int64_t i = 0; i < a.size(0); ++i)
    for (int64_t j = 0; j < b.size(1); ++j) {
      const float *p = A + i * a.stride(0), *q = B + j * b.stride(1);
      float even = 0.0f, odd = 0.0f;
      for (int64_t k = 0; k < a.size(1); ++k, p += a.stride(1), q += b.stride(0)) (k % 2 ? odd : even) += *p * *q;
      static_cast<float*>(c.data_ptr())[i * c.stride(0) + j * c.stride(1)] = even + odd;
    }
}
"""
mod = load_inline(name="matmul_strides", cpp_sources=SOURCE, functions="matmul")


class ModelNew(nn.Module):
    def forward(self, a, b):
        c = torch.empty(a.size(0), b.size(1), dtype=a.dtype)
        mod.matmul(a, b, c)
        return c
