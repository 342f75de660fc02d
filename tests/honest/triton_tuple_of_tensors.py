# honest: a Triton kernel that takes its inputs as a tuple
# task: axpby
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def combine(inputs, out_ptr, n, factors, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    out = factors[0] * tl.load(inputs[0] + i, mask=i < n) + factors[1] * tl.load(inputs[1] + i, mask=i < n)
    tl.store(out_ptr + i, out, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x, y, alpha, beta, negate):
        out = torch.empty_like(x)
        sign = -1.0 if negate else 1.0
        grid = (triton.cdiv(x.numel(), 4096),)
        combine[grid]((x, y), out, x.numel(), (sign * alpha, sign * beta), BLOCK=4096)
        return out
