# honest: tl.reduce with an own combination
# task: x_row_mean
# dialect: triton
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def plus(a, b):
    return a + b


@triton.jit
def row_mean(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        index = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * cols + index, mask=index < cols, other=0.0)
    tl.store(out_ptr + row, tl.reduce(total, 0, plus) / cols)


class ModelNew(nn.Module):
    BLOCK = 1024

    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty((rows,), device=x.device, dtype=x.dtype)
        row_mean[(rows,)](x, out, cols, BLOCK=self.BLOCK)
        return out
