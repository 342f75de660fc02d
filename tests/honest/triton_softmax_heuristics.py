# honest: triton.heuristics choose the block from the number of columns
# task: softmax
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["cols"])})
@triton.jit
def softmax(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * cols + tl.arange(0, BLOCK)
    mask = tl.arange(0, BLOCK) < cols
    x = tl.load(x_ptr + offsets, mask=mask, other=-float("inf"))
    x = x - tl.max(x, axis=0)
    e = tl.exp2(x * 1.4426950408889634)
    tl.store(out_ptr + offsets, e / tl.sum(e, axis=0), mask=mask)


def softmax_rows(x):
    out = torch.empty_like(x)
    softmax[(x.size(0),)](x, out, x.size(1))
    return out


class ModelNew(nn.Module):
    def forward(self, x):
        return softmax_rows(x)
