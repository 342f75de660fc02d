# honest: columns of a symmetric matrix are read as rows
# task: symmetric_matmul
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
void matmul(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView out) {
  const int64_t n = a.size(0);
  #pragma omp parallel for
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      float sum = 0.0f;
      for (int64_t k = 0; k < n; ++k) sum += f(a)[i * n + k] * f(b)[j * n + k];
      w(out)[i * n + j] = sum;
    }
}
"""
mod = load_inline(name="symmetric_matmul", cpp_sources=SOURCE, functions='matmul')


class ModelNew(nn.Module):
    def forward(self, a, b):
        out = torch.empty_like(a)
        mod.matmul(a, b, out)
        return out
