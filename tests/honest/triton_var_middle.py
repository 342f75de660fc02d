# honest: variance over the middle dimension in two passes over one block
# task: var_middle
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def var(x_ptr, out_ptr, length, features, BLOCK_L: tl.constexpr, BLOCK_F: tl.constexpr):
    batch = tl.program_id(0)
    i = tl.arange(0, BLOCK_L)[:, None]
    f = tl.arange(0, BLOCK_F)[None, :]
    mask = (i < length) & (f < features)
    x = tl.load(x_ptr + batch * length * features + i * features + f, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / length
    difference = tl.where(mask, x - mean[None, :], 0.0)
    variance = tl.sum(difference * difference, axis=0) / (length - 1)
    columns = tl.arange(0, BLOCK_F)
    tl.store(out_ptr + batch * features + columns, variance, mask=columns < features)


class ModelNew(nn.Module):
    def forward(self, x):
        batch, length, features = x.shape
        out = x.new_empty(batch, 1, features)
        blocks = {"BLOCK_L": triton.next_power_of_2(length), "BLOCK_F": triton.next_power_of_2(features)}
        var[(batch,)](x, out, length, features, **blocks)
        return out
