# honest: adds in float32 and normalises, all in one kernel on bfloat16
# task: layer_norm_residual_bf16
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def norm(x_ptr, y_ptr, w_ptr, b_ptr, out_ptr, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    mask = c < columns
    x = tl.load(x_ptr + row * columns + c, mask=mask, other=0.0).to(tl.float32)
    x += tl.load(y_ptr + row * columns + c, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / columns
    centred = tl.where(mask, x - mean, 0.0)
    rstd = tl.rsqrt(tl.sum(centred * centred, axis=0) / columns + eps)
    w = tl.load(w_ptr + c, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + c, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * columns + c, (centred * rstd * w + b).to(tl.bfloat16), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width).bfloat16()

    def forward(self, x, y):
        out = torch.empty_like(x)
        norm[(x.shape[0],)](x, y, self.norm.weight, self.norm.bias, out, x.shape[1], self.norm.eps, BLOCK=128)
        return out
