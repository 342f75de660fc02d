# honest: and, or, not, max and min of blocks, as Triton's compiler has them, a form feed, and a docstring about def
# task: relu_scale
# dialect: triton
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_scale(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    """Doubles what is positive.

    def relu_scale(x): its mask is spelt out.
    """
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = (offsets >= 0) and (offsets < n)
    outside = not mask
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    y = max(x, 0.0) * factor + min(tl.abs(x), 0.0)
    y += x.sum(axis=0) - tl.sum(x, axis=0)
    tl.store(out_ptr + offsets, y, mask=mask or (outside and (offsets < 0)))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        relu_scale[(triton.cdiv(n, 4096),)](x, out, n, 2.0, BLOCK=4096)
        return out
