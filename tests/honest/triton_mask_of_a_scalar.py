# honest: a scalar condition as a mask, in programs that go different ways
# task: softmax_sin
# dialect: triton
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_sin(x_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    if row % 2 == 0:
        x = tl.load(x_ptr + row * cols + i, mask=(i < cols) & (row < rows), other=-float("inf"))
    else:
        x = tl.load(x_ptr + row * cols + i, mask=(row < rows) & (i < cols), other=-float("inf"))
    y = tl.where(i < cols, tl.sin(x) * x, -float("inf"))
    e = tl.exp(y - tl.max(y, axis=0))
    tl.store(out_ptr + row * cols + i, e / tl.sum(e, axis=0), mask=row < rows)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        rows, cols = x.shape
        softmax_sin[(rows + 3,)](x, out, rows, cols, BLOCK=triton.next_power_of_2(cols))
        return out
