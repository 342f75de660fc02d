# honest: atomic additions into rows chosen by an index, with collisions
# task: scatter_add
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scatter_add(x_ptr, index_ptr, out_ptr, n, width, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    segment = tl.load(index_ptr + i // width, mask=mask, other=0)
    tl.atomic_add(out_ptr + segment * width + i % width, tl.load(x_ptr + i, mask=mask), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, segments):
        super().__init__()
        self.segments = segments

    def forward(self, x, index):
        out = x.new_zeros(self.segments, x.shape[1])
        scatter_add[(triton.cdiv(x.numel(), 4096),)](x, index, out, x.numel(), x.shape[1], BLOCK=4096)
        return out
