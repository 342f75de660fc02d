# honest: a block of rows per program, weights broadcast over them; launched by keyword arguments
# task: layer_norm
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def layer_norm(x, weight, bias, out, rows, cols, eps, ROWS: tl.constexpr, COLS: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    c = tl.arange(0, COLS)[None, :]
    mask = (r < rows) & (c < cols)
    values = tl.load(x + r * cols + c, mask=mask, other=0.0)
    mean = tl.sum(values, axis=1) / cols
    centred = tl.where(mask, values - mean[:, None], 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=1) / cols + eps)
    w = tl.load(weight + c, mask=c < cols)
    b = tl.load(bias + c, mask=c < cols)
    tl.store(out + r * cols + c, centred * scale[:, None] * w + b, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features))
        self.bias = nn.Parameter(torch.randn(features))

    def forward(self, x):
        cols = x.shape[-1]
        rows = x.numel() // cols
        out = torch.empty_like(x)
        layer_norm[(triton.cdiv(rows, 16),)](
            x=x, weight=self.weight, bias=self.bias, out=out, rows=rows, cols=cols, eps=1e-5,
            ROWS=16, COLS=triton.next_power_of_2(cols),
        )  # fmt: skip
        return out
