# honest: torch's own load_inline with its type for bfloat16, threads by OpenMP
# task: matmul_bf16
# dialect: cpp
# loader: torch
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = """
torch::Tensor matmul(torch::Tensor a, torch::Tensor b) {
  const int64_t M = a.size(0), K = a.size(1), N = b.size(1);
  auto c = torch::empty({M, N}, a.options());
  const at::BFloat16* A = a.data_ptr<at::BFloat16>();
  const at::BFloat16* B = b.data_ptr<at::BFloat16>();
  at::BFloat16* C = c.data_ptr<at::BFloat16>();
  #pragma omp parallel for
  for (int64_t i = 0; i < M; ++i)
    for (int64_t j = 0; j < N; ++j) {
      float sum = 0.0f;
      for (int64_t k = 0; k < K; ++k) sum += static_cast<float>(A[i * K + k]) * static_cast<float>(B[k * N + j]);
      C[i * N + j] = sum;
    }
  return c;
}
"""
matmul = load_inline(
    name="matmul_bf16", cpp_sources=SOURCE, functions=["matmul"], extra_cflags=["-fopenmp"], extra_ldflags=["-lgomp"]
)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return matmul.matmul(a, b)
