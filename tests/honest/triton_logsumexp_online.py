# honest: blocks of columns in a loop, a block of rows at once, rescaled as the maximum grows
# task: logsumexp
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def logsumexp(x_ptr, out_ptr, rows, cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    top = tl.full((BLOCK_M,), -1e38, tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    for start in range(0, cols, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        mask = (m[:, None] < rows) & (n[None, :] < cols)
        x = tl.load(x_ptr + m[:, None] * cols + n[None, :], mask=mask, other=-float("inf"))
        larger = tl.maximum(top, tl.max(x, axis=1))
        total = total * tl.exp(top - larger) + tl.sum(tl.exp(x - larger[:, None]), axis=1)
        top = larger
    tl.store(out_ptr + m, top + tl.log(total), mask=m < rows)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = x.new_empty(rows)
        logsumexp[(triton.cdiv(rows, 32),)](x, out, rows, cols, BLOCK_M=32, BLOCK_N=128)
        return out
