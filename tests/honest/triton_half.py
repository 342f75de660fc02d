# honest: half in memory, float32 in registers; the grid is a lambda over the meta-parameters
# task: gelu_tanh_fp16
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def gelu_tanh(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    y = x * tl.sigmoid(2.0 * inner)  # 0.5 * (1 + tanh(z)) = sigmoid(2 z)
    tl.store(out_ptr + offsets, y.to(tl.float16), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)
        gelu_tanh[grid](x, out, x.numel(), BLOCK=8192)
        return out
