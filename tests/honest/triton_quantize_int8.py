# honest: int8 quantization of rows
# task: quantize_int8
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def quantize(x_ptr, q_ptr, scale_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + c, mask=c < columns, other=0.0)
    scale = tl.maximum(tl.max(tl.abs(x), axis=0), 1e-8) / 127.0
    y = x / scale
    rounded = tl.floor(y + 0.5)
    rounded = tl.where((rounded - y == 0.5) & (rounded % 2 != 0), rounded - 1.0, rounded)
    rounded = tl.minimum(tl.maximum(rounded, -128.0), 127.0)
    tl.store(q_ptr + row * columns + c, rounded.to(tl.int8), mask=c < columns)
    tl.store(scale_ptr + row, scale)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        q = torch.empty((rows, columns), dtype=torch.int8, device=x.device)
        scale = torch.empty((rows, 1), dtype=x.dtype, device=x.device)
        quantize[(rows,)](x, q, scale, columns, BLOCK=triton.next_power_of_2(columns))
        return q, scale
