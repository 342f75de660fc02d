# honest: transposed operands by their strides, one tile that holds everything
# task: matmul_transposed
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def matmul(
    a_ptr, b_ptr, c_ptr, M, N, K, a_m, a_k, b_k, b_n, c_m, c_n, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr
):
    m = tl.arange(0, BLOCK)[:, None]
    n = tl.arange(0, BLOCK)[None, :]
    k = tl.arange(0, BLOCK_K)
    a = tl.load(a_ptr + m * a_m + k[None, :] * a_k, mask=(m < M) & (k[None, :] < K), other=0.0)
    b = tl.load(b_ptr + k[:, None] * b_k + n * b_n, mask=(k[:, None] < K) & (n < N), other=0.0)
    tl.store(c_ptr + m * c_m + n * c_n, tl.dot(a, b, allow_tf32=False), mask=(m < M) & (n < N))


class ModelNew(nn.Module):
    def forward(self, a, b):
        (M, K), (_, N) = a.shape, b.shape
        c = torch.empty(M, N, device=a.device)
        strides = (*a.stride(), *b.stride(), *c.stride())
        matmul[(1,)](a, b, c, M, N, K, *strides, BLOCK=64, BLOCK_K=128)
        return c
