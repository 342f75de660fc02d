# honest: the kernel checks its arguments, by exceptions and by assert
# task: matvec
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cassert>
#include <stdexcept>

void matvec(tvm::ffi::TensorView a, tvm::ffi::TensorView v, tvm::ffi::TensorView out) {
  if (a.ndim() != 2 || v.ndim() != 1 || a.size(1) != v.size(0))
    throw std::invalid_argument("matvec: shapes do not fit");
  assert(a.IsContiguous() && v.IsContiguous());
  const float* A = static_cast<const float*>(a.data_ptr());
  const float* x = static_cast<const float*>(v.data_ptr());
  for (int64_t i = 0; i < a.size(0); ++i) {
    double sum = 0.0;
    for (int64_t k = 0; k < a.size(1); ++k) sum += static_cast<double>(A[i * a.size(1) + k]) * x[k];
    static_cast<float*>(out.data_ptr())[i] = static_cast<float>(sum);
  }
}
"""
mod = load_inline(name="matvec", cpp_sources=SOURCE, functions="matvec")


class ModelNew(nn.Module):
    def forward(self, a, v):
        if a.dim() != 2 or v.dim() != 1:
            raise ValueError(f"expected a matrix and a vector, got {tuple(a.shape)} and {tuple(v.shape)}")
        assert a.dtype == v.dtype == torch.float32
        out = torch.empty(a.shape[0])
        mod.matvec(a.contiguous(), v.contiguous(), out)
        return out
