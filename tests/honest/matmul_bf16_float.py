# honest: bfloat16 operands widened once into float buffers, float sums, rounded at the end
# task: matmul_bf16
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cstring>
#include <vector>

static std::vector<float> widen(tvm::ffi::TensorView t) {
  const uint16_t* bits = static_cast<const uint16_t*>(t.data_ptr());
  std::vector<float> wide(t.numel());
  for (size_t i = 0; i < wide.size(); ++i) {
    const uint32_t word = static_cast<uint32_t>(bits[i]) << 16;
    std::memcpy(&wide[i], &word, 4);
  }
  return wide;
}

void matmul(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView c) {
  const std::vector<float> A = widen(a), B = widen(b);
  const int64_t M = a.size(0), K = a.size(1), N = b.size(1);
  uint16_t* C = static_cast<uint16_t*>(c.data_ptr());
  std::vector<float> row(N);
  for (int64_t i = 0; i < M; ++i) {
    row.assign(N, 0.0f);
    for (int64_t k = 0; k < K; ++k)
      for (int64_t j = 0; j < N; ++j) row[j] += A[i * K + k] * B[k * N + j];
    for (int64_t j = 0; j < N; ++j) {
      uint32_t word;
      std::memcpy(&word, &row[j], 4);
      C[i * N + j] = static_cast<uint16_t>((word + 0x7FFF + (word >> 16 & 1)) >> 16);
    }
  }
}
"""
mod = load_inline(name="matmul_bf16", cpp_sources=SOURCE, functions="matmul")


class ModelNew(nn.Module):
    def forward(self, a, b):
        c = torch.empty(a.shape[0], b.shape[1], dtype=torch.bfloat16)
        mod.matmul(a, b, c)
        return c
