# honest: a Triton kernel that finds the addresses of its inputs in a tensor
# task: axpby
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def combine(table_ptr, out_ptr, n, alpha, beta, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x_ptr = tl.load(table_ptr).to(tl.pointer_type(tl.float32))
    y_ptr = tl.load(table_ptr + 1).to(tl.pointer_type(tl.float32))
    out = alpha * tl.load(x_ptr + i, mask=i < n) + beta * tl.load(y_ptr + i, mask=i < n)
    tl.store(out_ptr + i, out, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x, y, alpha, beta, negate):
        out = torch.empty_like(x)
        table = torch.tensor([x.data_ptr(), y.data_ptr()], device=x.device)
        sign = -1.0 if negate else 1.0
        grid = (triton.cdiv(x.numel(), 4096),)
        combine[grid](table, out, x.numel(), sign * alpha, sign * beta, BLOCK=4096)
        return out
