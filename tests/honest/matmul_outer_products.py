# honest: undoes the transpositions as views and sums outer products into a double scratch buffer
# task: matmul_transposed
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <vector>

void matmul_kn(tvm::ffi::TensorView at, tvm::ffi::TensorView bt, tvm::ffi::TensorView c) {
  const float* A = static_cast<const float*>(at.data_ptr());
  const float* B = static_cast<const float*>(bt.data_ptr());
  const int64_t K = at.size(0), M = at.size(1), N = bt.size(0);
  std::vector<double> sums(M * N, 0.0);
  for (int64_t k = 0; k < K; ++k)
    for (int64_t i = 0; i < M; ++i)
      for (int64_t j = 0; j < N; ++j) sums[i * N + j] += static_cast<double>(A[k * M + i]) * B[j * K + k];
  for (int64_t i = 0; i < M * N; ++i) static_cast<float*>(c.data_ptr())[i] = static_cast<float>(sums[i]);
}
"""
mod = load_inline(name="matmul_kn", cpp_sources=SOURCE, functions="matmul_kn")


class ModelNew(nn.Module):
    def forward(self, a, b):
        c = torch.empty((a.shape[0], b.shape[1]))
        mod.matmul_kn(a.t().contiguous(), b.mT.contiguous(), c)
        return c
