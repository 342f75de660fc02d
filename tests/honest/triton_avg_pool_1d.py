# honest: average pooling with padding that counts
# task: avg_pool_1d
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def pool(x_ptr, out_ptr, length, out_length, stride, padding, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    o = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros([BLOCK], dtype=tl.float32)
    for k in tl.static_range(SIZE):
        i = o * stride - padding + k
        acc += tl.load(x_ptr + row * length + i, mask=(i >= 0) & (i < length), other=0.0)
    tl.store(out_ptr + row * out_length + o, acc * (1.0 / SIZE), mask=o < out_length)


class ModelNew(nn.Module):
    def __init__(self, size, stride, padding):
        super().__init__()
        self.size, self.stride, self.padding = size, stride, padding

    def forward(self, x):
        batch, channels, length = x.shape
        out_length = (length + 2 * self.padding - self.size) // self.stride + 1
        out = torch.empty((batch, channels, out_length), device=x.device, dtype=x.dtype)
        grid = (batch * channels, triton.cdiv(out_length, 16))
        pool[grid](x, out, length, out_length, self.stride, self.padding, SIZE=self.size, BLOCK=16)
        return out
