# honest: one of two kernels, chosen by an argument of forward from a dictionary
# task: axpby
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def plus(x_ptr, y_ptr, out_ptr, n, alpha, beta, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    out = alpha * tl.load(x_ptr + i, mask=i < n) + beta * tl.load(y_ptr + i, mask=i < n)
    tl.store(out_ptr + i, out, mask=i < n)


@triton.jit
def minus(x_ptr, y_ptr, out_ptr, n, alpha, beta, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    out = alpha * tl.load(x_ptr + i, mask=i < n) + beta * tl.load(y_ptr + i, mask=i < n)
    tl.store(out_ptr + i, -out, mask=i < n)


KERNELS = {False: plus, True: minus}


class ModelNew(nn.Module):
    def forward(self, x, y, alpha, beta, negate):
        out = torch.empty_like(x)
        KERNELS[negate][(1,)](x, y, out, x.numel(), alpha, beta, BLOCK=16384)
        return out
