# honest: a reduction of three values by a function of its own
# task: welford_variance
# dialect: triton
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def combine(m1, s1, n1, m2, s2, n2):
    d = m2 - m1
    n = n1 + n2
    r = tl.where(n > 0, n2 / tl.maximum(n, 1.0), 0.0)
    return m1 + d * r, s1 + s2 + d * d * n1 * r, n


@triton.jit
def row_kernel(x_ptr, o_ptr, D, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * D + c, mask=c < D, other=0.0)
    w = tl.where(c < D, 1.0, 0.0)
    m, s, n = tl.reduce((x, tl.zeros_like(x), w), 0, combine)
    tl.store(o_ptr + row, s / (n - 1.0))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        n, d = x.shape
        o = torch.empty((n,), dtype=x.dtype, device=x.device)
        row_kernel[(n,)](x, o, d, BLOCK=triton.next_power_of_2(d))
        return o
