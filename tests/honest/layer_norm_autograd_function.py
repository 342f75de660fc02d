# honest: published form: an autograd.Function with a backward, whose apply is a name of the file, and an import that is tried
# task: layer_norm
# dialect: triton
import warnings

import numpy as np
import torch
from torch import nn

try:
    import triton
    import triton.language as tl

    HAS_TRITON = True
except ImportError:
    triton = None
    HAS_TRITON = False


@triton.jit
def norm_kernel(x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, rstd_ptr, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / n_cols
    centred = tl.where(mask, x - mean, 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / n_cols + eps)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0)
    b = tl.load(b_ptr + cols, mask=mask, other=0.0)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    tl.store(y_ptr + row * n_cols + cols, centred * rstd * w + b, mask=mask)


@triton.jit
def norm_backward_kernel(dy_ptr, w_ptr, dx_ptr, n_cols, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    dy = tl.load(dy_ptr + tl.program_id(0) * n_cols + cols, mask=mask)
    w = tl.load(w_ptr + cols, mask=mask)
    tl.store(dx_ptr + tl.program_id(0) * n_cols + cols, dy * w, mask=mask)


class LayerNormFunction(torch.autograd.Function):
    """Layer norm of the last dimension."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, weight, bias, eps):
        shape = x.shape
        rows = x.reshape(-1, shape[-1])
        n_rows, n_cols = rows.shape
        if n_cols > 65536:
            warnings.warn("rows are long")
        ctx.block = triton.next_power_of_2(n_cols)
        y = torch.empty_like(rows)
        mean = torch.empty(n_rows, dtype=torch.float32, device=x.device)
        rstd = torch.empty_like(mean)
        norm_kernel[(n_rows,)](rows, weight, bias, y, mean, rstd, n_cols, eps, BLOCK=ctx.block)
        ctx.save_for_backward(rows, weight, mean, rstd)
        ctx.eps = eps
        return y.view(*shape)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, dy):
        rows, weight, mean, rstd = ctx.saved_tensors
        dx = torch.empty_like(rows)
        norm_backward_kernel[(rows.shape[0],)](dy, weight, dx, rows.shape[1], BLOCK=ctx.block)
        return dx.view_as(dy), (dy * rows).sum(0), dy.sum(0), None


layer_norm = LayerNormFunction.apply


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features))
        self.bias = nn.Parameter(torch.randn(features))
        self.numel = int(np.prod(self.weight.shape))

    def forward(self, x):
        if self.numel == 0:
            return torch.empty_like(x)
        return layer_norm(x, self.weight, self.bias, 1e-5)
