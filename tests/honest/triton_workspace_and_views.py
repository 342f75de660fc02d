# honest: a Triton kernel with a kept workspace, two outputs in one buffer
# task: x_twice
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, tl.maximum(x, 0.0) * 2.0, mask=offsets < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.work = None

    def forward(self, x):
        if self.work is None:
            self.work = torch.empty_like(x)
        both = torch.empty((2,) + tuple(x.shape), device=x.device)
        grid = (triton.cdiv(x.numel(), 4096),)
        kernel[grid](x, self.work, x.numel(), BLOCK=4096)
        kernel[grid](x, both[0], x.numel(), BLOCK=4096)
        kernel[grid](x, both[1], x.numel(), BLOCK=4096)
        return both[0], both[1]
