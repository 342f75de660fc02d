# honest: one block of elements for each program
# task: relu_scale
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def relu_scale(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, tl.maximum(x, 0.0) * 2.0, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        relu_scale[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
        return out
