# honest: a class body that assigns two constants at once
# task: relu_scale
# dialect: triton
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_scale(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, tl.maximum(x, 0.0) * 2.0, mask=offsets < n)


class ModelNew(nn.Module):
    BLOCK, WARPS = 4096, 4

    def forward(self, x):
        out = torch.empty_like(x)
        relu_scale[(triton.cdiv(x.numel(), self.BLOCK),)](x, out, x.numel(), BLOCK=self.BLOCK, num_warps=self.WARPS)
        return out
