# honest: jit with an argument; a constant of the module is read by the kernel
# task: matvec
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn

ROWS = tl.constexpr(64)


@triton.jit(do_not_specialize=["cols"])
def matvec(a_ptr, v_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, BLOCK)
    a = tl.load(a_ptr + r[:, None] * cols + c[None, :], mask=(r[:, None] < rows) & (c[None, :] < cols), other=0.0)
    v = tl.load(v_ptr + c, mask=c < cols, other=0.0)
    tl.store(out_ptr + r, tl.sum(a * v[None, :], axis=1), mask=r < rows)


class ModelNew(nn.Module):
    def forward(self, a, v):
        rows, cols = a.shape
        out = a.new_empty(rows)
        matvec[(triton.cdiv(rows, 64),)](a, v, out, rows, cols, BLOCK=triton.next_power_of_2(cols))
        return out
