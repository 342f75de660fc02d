# honest: tiles packed into thread-local buffers, with ragged edges
# task: matmul
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <algorithm>
#include <cstring>

constexpr int64_t TILE = 32;

void matmul(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView c) {
  const float* A = static_cast<const float*>(a.data_ptr());
  const float* B = static_cast<const float*>(b.data_ptr());
  float* C = static_cast<float*>(c.data_ptr());
  const int64_t M = a.size(0), K = a.size(1), N = b.size(1);
  #pragma omp parallel
  {
    alignas(64) float panel[TILE][TILE], sums[TILE][TILE];
    #pragma omp for collapse(2)
    for (int64_t i0 = 0; i0 < M; i0 += TILE)
      for (int64_t j0 = 0; j0 < N; j0 += TILE) {
        const int64_t rows = std::min(TILE, M - i0), cols = std::min(TILE, N - j0);
        std::memset(sums, 0, sizeof sums);
        for (int64_t k0 = 0; k0 < K; k0 += TILE) {
          const int64_t depth = std::min(TILE, K - k0);
          for (int64_t k = 0; k < depth; ++k) std::memcpy(panel[k], B + (k0 + k) * N + j0, cols * sizeof(float));
          for (int64_t i = 0; i < rows; ++i)
            for (int64_t k = 0; k < depth; ++k) {
              const float v = A[(i0 + i) * K + k0 + k];
              #pragma omp simd
              for (int64_t j = 0; j < cols; ++j) sums[i][j] += v * panel[k][j];
            }
        }
        for (int64_t i = 0; i < rows; ++i) std::memcpy(C + (i0 + i) * N + j0, sums[i], cols * sizeof(float));
      }
  }
}
"""
mod = load_inline(name="matmul_tiled", cpp_sources=SOURCE, functions="matmul", extra_cflags=["-O3"])


class ModelNew(nn.Module):
    def forward(self, a, b):
        c = a.new_empty(a.shape[0], b.shape[1])
        mod.matmul(a, b, c)
        return c
