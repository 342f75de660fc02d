# honest: a gated product with both halves of the weight in one kernel
# task: swiglu
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def swiglu(x_ptr, w_ptr, out_ptr, rows, width, hidden, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    r = tl.program_id(0) * M + tl.arange(0, M)
    c = tl.program_id(1) * N + tl.arange(0, N)
    gate = tl.zeros((M, N), dtype=tl.float32)
    up = tl.zeros((M, N), dtype=tl.float32)
    for begin in range(0, width, K):
        k = begin + tl.arange(0, K)
        x = tl.load(x_ptr + r[:, None] * width + k[None, :], mask=(r[:, None] < rows) & (k[None, :] < width), other=0.0)
        kept = (c[None, :] < hidden) & (k[:, None] < width)
        of_gate = tl.load(w_ptr + c[None, :] * width + k[:, None], mask=kept, other=0.0)
        of_up = tl.load(w_ptr + (hidden + c[None, :]) * width + k[:, None], mask=kept, other=0.0)
        gate += tl.dot(x, of_gate, input_precision="ieee")
        up += tl.dot(x, of_up, input_precision="ieee")
    result = gate * tl.sigmoid(gate) * up
    tl.store(out_ptr + r[:, None] * hidden + c[None, :], result, mask=(r[:, None] < rows) & (c[None, :] < hidden))


class ModelNew(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.both = nn.Linear(width, 2 * hidden, bias=False)

    def forward(self, x):
        rows, width = x.shape
        hidden = self.both.out_features // 2
        out = torch.empty((rows, hidden), device=x.device, dtype=x.dtype)
        grid = (triton.cdiv(rows, 16), triton.cdiv(hidden, 16))
        swiglu[grid](x, self.both.weight, out, rows, width, hidden, M=16, N=16, K=16)
        return out
