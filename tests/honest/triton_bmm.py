# honest: a grid of three dimensions, products summed without tl.dot
# task: bmm
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def bmm(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    batch = tl.program_id(2)
    m = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
    n = (tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(K):
        a = tl.load(a_ptr + (batch * M + m) * K + k, mask=m < M, other=0.0)
        b = tl.load(b_ptr + (batch * K + k) * N + n, mask=n < N, other=0.0)
        total += a * b
    tl.store(c_ptr + (batch * M + m) * N + n, total, mask=(m < M) & (n < N))


class ModelNew(nn.Module):
    def forward(self, a, b):
        batch, M, K = a.shape
        N = b.shape[-1]
        c = a.new_empty(batch, M, N)
        bmm[(triton.cdiv(M, 64), triton.cdiv(N, 32), batch)](a, b, c, M, N, K, BLOCK_M=64, BLOCK_N=32)
        return c
