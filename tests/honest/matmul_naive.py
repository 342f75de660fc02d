# honest: three loops in the order i, k, j
# task: matmul
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void matmul(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView c) {
  const float* A = static_cast<const float*>(a.data_ptr());
  const float* B = static_cast<const float*>(b.data_ptr());
  float* C = static_cast<float*>(c.data_ptr());
  const int64_t M = a.size(0), K = a.size(1), N = b.size(1);
  #pragma omp parallel for
  for (int64_t i = 0; i < M; ++i)
    for (int64_t k = 0; k < K; ++k)
      for (int64_t j = 0; j < N; ++j) C[i * N + j] += A[i * K + k] * B[k * N + j];
}
"""
mod = load_inline(name="matmul", cpp_sources=SOURCE, functions="matmul")


class ModelNew(nn.Module):
    def forward(self, a, b):
        c = torch.zeros(a.shape[0], b.shape[1])
        mod.matmul(a, b, c)
        return c
