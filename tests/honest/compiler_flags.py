# honest: flags and macros that tune the code, one of them for finite numbers only
# task: bmm
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void bmm(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView c) {
  const int64_t M = a.size(1), K = a.size(2), N = b.size(2);
  #pragma omp parallel for collapse(2)
  for (int64_t n = 0; n < a.size(0); ++n)
    for (int64_t i = 0; i < M; ++i) {
      const float* A = static_cast<const float*>(a.data_ptr()) + (n * M + i) * K;
      const float* B = static_cast<const float*>(b.data_ptr()) + n * K * N;
      float* C = static_cast<float*>(c.data_ptr()) + (n * M + i) * N;
      for (int64_t j0 = 0; j0 < N; j0 += TILE) {
        const int64_t width = N - j0 < TILE ? N - j0 : TILE;
        float sum[TILE] = {0.0f};
        for (int64_t k = 0; k < K; ++k)
          for (int64_t j = 0; j < width; ++j) sum[j] += A[k] * B[k * N + j0 + j];
        for (int64_t j = 0; j < width; ++j) C[j0 + j] = sum[j];
      }
    }
}
"""
FLAGS = "-O3 -DTILE=16 -std=c++20 -funroll-loops -fno-math-errno -ffinite-math-only -mprefer-vector-width=256 -Wno-unused"
mod = load_inline(name="bmm", cpp_sources=SOURCE, functions="bmm", extra_cflags=FLAGS.split())


class ModelNew(nn.Module):
    def forward(self, a, b):
        c = torch.empty(a.size(0), a.size(1), b.size(2))
        mod.bmm(a, b, c)
        return c
