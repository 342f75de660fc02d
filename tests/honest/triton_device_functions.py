# honest: helper functions that are compiled too, called by the kernel
# task: mish_chain
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def softplus(x):
    return tl.where(x > 20.0, x, tl.log(1.0 + tl.exp(tl.minimum(x, 20.0))))


@triton.jit
def mish(x):
    return x * (2.0 * tl.sigmoid(2.0 * softplus(x)) - 1.0)


@triton.jit
def clamp(x, low, high):
    return tl.minimum(tl.maximum(x, low), high)


@triton.jit
def chain(x_ptr, out_ptr, n, SLOPE: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    x = tl.where(x > 0.0, x, x * SLOPE)
    x = clamp(mish(x), -1.0, 4.0)
    tl.store(out_ptr + offsets, x * clamp(x + 3.0, 0.0, 6.0) / 6.0, mask=offsets < n)


class ModelNew(nn.Module):
    BLOCK = 16384

    def forward(self, x):
        out = torch.empty_like(x)
        chain[(triton.cdiv(x.numel(), self.BLOCK),)](x, out, x.numel(), SLOPE=0.1, BLOCK=self.BLOCK)
        return out
