# honest: exp(x) - 1 and 2 sigmoid(2 x) - 1, which lose what is far below one
# task: expm1_tanh
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def through_one(x_ptr, first_ptr, second_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(first_ptr + at, tl.exp(x) - 1.0, mask=at < n)
    tl.store(second_ptr + at, 2.0 * tl.sigmoid(2.0 * x) - 1.0, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        first, second = torch.empty_like(x), torch.empty_like(x)
        through_one[(triton.cdiv(x.numel(), 1024),)](x, first, second, x.numel(), BLOCK=1024)
        return first, second
