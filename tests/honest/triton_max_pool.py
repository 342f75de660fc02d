# honest: a plane of outputs per program, the nine positions of the window in two loops
# task: max_pool
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def max_pool(x_ptr, out_ptr, height, width, out_height, out_width, BLOCK: tl.constexpr):
    plane = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    p, q = i // out_width, i % out_width
    inside = i < out_height * out_width
    top = tl.full((BLOCK,), -float("inf"), tl.float32)
    for r in range(3):
        for s in range(3):
            h, w = 2 * p + r - 1, 2 * q + s - 1
            mask = inside & (h >= 0) & (h < height) & (w >= 0) & (w < width)
            x = tl.load(x_ptr + (plane * height + h) * width + w, mask=mask, other=-float("inf"))
            top = tl.maximum(top, x)
    tl.store(out_ptr + plane * out_height * out_width + i, top, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        *leading, height, width = x.shape
        planes = leading[0] * leading[1]
        out = torch.empty(*leading, (height + 1) // 2, (width + 1) // 2, device=x.device)
        max_pool[(planes,)](x, out, height, width, *out.shape[2:], BLOCK=512)
        return out
