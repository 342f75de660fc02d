# honest: tl.reduce with an own combination
# task: mse
# dialect: triton
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def plus(a, b):
    return a + b


@triton.jit
def squares(p_ptr, t_ptr, out_ptr, n, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        index = start + tl.arange(0, BLOCK)
        mask = index < n
        difference = tl.load(p_ptr + index, mask=mask, other=0.0) - tl.load(t_ptr + index, mask=mask, other=0.0)
        total += difference * difference
    tl.atomic_add(out_ptr, tl.reduce(total, 0, plus) / n)


class ModelNew(nn.Module):
    BLOCK = 64
    PROGRAMS = 8

    def forward(self, prediction, target):
        out = torch.zeros((), device=prediction.device, dtype=prediction.dtype)
        squares[(self.PROGRAMS,)](prediction, target, out, prediction.numel(), BLOCK=self.BLOCK)
        return out
