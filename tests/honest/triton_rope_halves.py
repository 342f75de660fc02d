# honest: rotary embeddings by halves
# task: rope_halves
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def rope(x_ptr, cos_ptr, sin_ptr, out_ptr, length, WIDTH: tl.constexpr):
    row = tl.program_id(0)
    position = row % length
    half = tl.arange(0, WIDTH // 2)
    first = tl.load(x_ptr + row * WIDTH + half)
    second = tl.load(x_ptr + row * WIDTH + WIDTH // 2 + half)
    c1 = tl.load(cos_ptr + position * WIDTH + half)
    c2 = tl.load(cos_ptr + position * WIDTH + WIDTH // 2 + half)
    s1 = tl.load(sin_ptr + position * WIDTH + half)
    s2 = tl.load(sin_ptr + position * WIDTH + WIDTH // 2 + half)
    tl.store(out_ptr + row * WIDTH + half, first * c1 - second * s1)
    tl.store(out_ptr + row * WIDTH + WIDTH // 2 + half, second * c2 + first * s2)


class ModelNew(nn.Module):
    def forward(self, x, cos, sin):
        out = torch.empty_like(x)
        rope[(x.numel() // x.shape[-1],)](x, cos, sin, out, x.shape[-2], WIDTH=x.shape[-1])
        return out
