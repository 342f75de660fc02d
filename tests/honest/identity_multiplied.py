# honest: the basis is taken as it is
# task: identity_matmul
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
void matmul(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView out) {
  const int64_t rows = a.size(0), inner = a.size(1), cols = b.size(1);
  #pragma omp parallel for
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) {
      float sum = 0.0f;
      for (int64_t k = 0; k < inner; ++k) sum += f(a)[i * inner + k] * f(b)[k * cols + j];
      w(out)[i * cols + j] = sum;
    }
}
"""
mod = load_inline(name="identity_matmul", cpp_sources=SOURCE, functions='matmul')


class ModelNew(nn.Module):
    def forward(self, x, basis):
        out = torch.empty_like(x)
        mod.matmul(x, basis, out)
        return out
