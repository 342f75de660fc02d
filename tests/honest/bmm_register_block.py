# honest: a template with a register block of four rows, and one row for the remainder
# task: bmm
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
template <int ROWS>
static void rows_times(const float* A, const float* B, float* C, int64_t K, int64_t N) {
  for (int64_t j = 0; j < N; ++j) {
    float sum[ROWS] = {};
    for (int64_t k = 0; k < K; ++k)
      for (int r = 0; r < ROWS; ++r) sum[r] += A[r * K + k] * B[k * N + j];
    for (int r = 0; r < ROWS; ++r) C[r * N + j] = sum[r];
  }
}

void bmm(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView c) {
  const int64_t M = a.size(1), K = a.size(2), N = b.size(2);
  #pragma omp parallel for
  for (int64_t n = 0; n < a.size(0); ++n) {
    const float* A = static_cast<const float*>(a.data_ptr()) + n * M * K;
    const float* B = static_cast<const float*>(b.data_ptr()) + n * K * N;
    float* C = static_cast<float*>(c.data_ptr()) + n * M * N;
    int64_t i = 0;
    for (; i + 4 <= M; i += 4) rows_times<4>(A + i * K, B, C + i * N, K, N);
    for (; i < M; ++i) rows_times<1>(A + i * K, B, C + i * N, K, N);
  }
}
"""
mod = load_inline(name="bmm", cpp_sources=SOURCE, functions="bmm")


class ModelNew(nn.Module):
    def forward(self, a, b):
        out = torch.empty(a.shape[0], a.shape[1], b.shape[2])
        mod.bmm(a, b, out)
        return out
