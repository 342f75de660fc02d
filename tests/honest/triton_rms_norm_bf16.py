# honest: bfloat16 in memory, float32 sums
# task: rms_norm_bf16
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def rms_norm(x_ptr, weight_ptr, out_ptr, cols, eps, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    mask = offsets < cols
    start = tl.program_id(0) * cols
    x = tl.load(x_ptr + start + offsets, mask=mask, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / cols + eps)
    tl.store(out_ptr + start + offsets, (x * scale * weight).to(out_ptr.dtype.element_ty), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, features, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(features).bfloat16())
        self.eps = eps

    def forward(self, x):
        out = torch.empty_like(x)
        rms_norm[(x.shape[0],)](x, self.weight, out, x.shape[1], self.eps, BLOCK=512)
        return out
