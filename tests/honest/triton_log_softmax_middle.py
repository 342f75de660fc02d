# honest: one program per image; the reduction runs down the middle dimension
# task: log_softmax_middle
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def log_softmax(x_ptr, out_ptr, CLASSES: tl.constexpr, POSITIONS: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_P: tl.constexpr):
    c = tl.arange(0, BLOCK_C)[:, None]
    p = tl.arange(0, BLOCK_P)[None, :]
    mask = (c < CLASSES) & (p < POSITIONS)
    offsets = tl.program_id(0) * CLASSES * POSITIONS + c * POSITIONS + p
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    top = tl.max(tl.where(c < CLASSES, x, -float("inf")), axis=0)
    shifted = x - top[None, :]
    total = tl.sum(tl.where(c < CLASSES, tl.exp(shifted), 0.0), axis=0)
    tl.store(out_ptr + offsets, shifted - tl.log(total)[None, :], mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        batch, classes, positions = x.shape
        out = torch.empty_like(x)
        log_softmax[(batch,)](x, out, CLASSES=classes, POSITIONS=positions, BLOCK_C=64, BLOCK_P=64)
        return out
