# honest: partial sums into a scratch tensor, then a second launch of the same kernel over them
# task: long_sum
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def block_sums(x_ptr, out_ptr, rows, cols, blocks, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.arange(0, ROWS)
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = (r[:, None] < rows) & (c[None, :] < cols)
    x = tl.load(x_ptr + r[:, None] * cols + c[None, :], mask=mask, other=0.0)
    tl.store(out_ptr + r * blocks + tl.program_id(0), tl.sum(x, axis=1), mask=r < rows)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        blocks = triton.cdiv(cols, 8192)
        partial = x.new_empty(rows, blocks)
        out = x.new_empty(rows)
        block_sums[(blocks,)](x, partial, rows, cols, blocks, ROWS=8, BLOCK=8192)
        block_sums[(1,)](partial, out, rows, blocks, 1, ROWS=8, BLOCK=triton.next_power_of_2(blocks))
        return out
