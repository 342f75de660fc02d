# honest: functions of its own that are named as tutorials name them
# task: bmm
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <algorithm>
#include <cstring>
struct system_of_tiles { int64_t alias[2]; };
static void sgemm_block(const float* a, const float* b, float* c, int64_t M, int64_t N, int64_t K) {
  const system_of_tiles tiles{{32, 0}};
  for (int64_t start = 0; start < K; start += tiles.alias[0])
    for (int64_t i = 0; i < M; ++i)
      for (int64_t k = start; k < std::min(start + tiles.alias[0], K); ++k)
        for (int64_t j = 0; j < N; ++j) c[i * N + j] += a[i * K + k] * b[k * N + j];
}
void bmm(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView c) {
  const int64_t count = a.size(0), M = a.size(1), K = a.size(2), N = b.size(2);
  const float* x = static_cast<const float*>(a.data_ptr());
  const float* y = static_cast<const float*>(b.data_ptr());
  float* z = static_cast<float*>(c.data_ptr());
  std::memset(z, 0, count * M * N * sizeof(float));
  #pragma omp parallel for
  for (int64_t i = 0; i < count; ++i) sgemm_block(x + i * M * K, y + i * K * N, z + i * M * N, M, N, K);
}
"""
module = load_inline(name="bmm", cpp_sources=SOURCE, functions="bmm")


class ModelNew(nn.Module):
    def forward(self, a, b):
        out = torch.empty(a.shape[0], a.shape[1], b.shape[2])
        module.bmm(a.contiguous(), b.contiguous(), out)
        return out
