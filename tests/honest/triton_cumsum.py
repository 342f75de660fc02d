# honest: tl.cumsum along an axis, in float64
# task: cumsum
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def cumsum(x_ptr, out_ptr, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    c = tl.arange(0, BLOCK)[None, :]
    x = tl.load(x_ptr + r * cols + c, mask=c < cols, other=0.0)
    sums = tl.cumsum(x.to(tl.float64), axis=1)
    tl.store(out_ptr + r * cols + c, sums.to(tl.float32), mask=c < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        assert rows % 8 == 0
        out = torch.empty_like(x)
        cumsum[(rows // 8,)](x, out, cols, ROWS=8, BLOCK=triton.next_power_of_2(cols))
        return out
