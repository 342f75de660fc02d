# honest: a matrix product split along its inner dimension, with atomic additions
# task: matmul_square_small
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, size, M: tl.constexpr, K: tl.constexpr, SPLIT: tl.constexpr):
    r = tl.program_id(0) * M + tl.arange(0, M)
    c = tl.program_id(1) * M + tl.arange(0, M)
    acc = tl.zeros((M, M), dtype=tl.float32)
    for begin in range(tl.program_id(2) * K, size, SPLIT * K):
        k = begin + tl.arange(0, K)
        a = tl.load(a_ptr + r[:, None] * size + k[None, :])
        b = tl.load(b_ptr + k[:, None] * size + c[None, :])
        acc += tl.dot(a, b, allow_tf32=False)
    tl.atomic_add(c_ptr + r[:, None] * size + c[None, :], acc)


class ModelNew(nn.Module):
    def forward(self, a, b):
        out = torch.zeros_like(a)
        grid = (a.shape[0] // 16, a.shape[1] // 16, 2)
        matmul[grid](a, b, out, a.shape[0], M=16, K=16, SPLIT=2)
        return out
