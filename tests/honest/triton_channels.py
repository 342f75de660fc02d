# honest: one program per plane of (image, channel), parameters loaded as scalars
# task: bias_silu_scale
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def bias_silu_scale(x_ptr, bias_ptr, scale_ptr, out_ptr, channels, plane, BLOCK: tl.constexpr):
    image, channel = tl.program_id(0), tl.program_id(1)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < plane
    start = (image * channels + channel) * plane
    x = tl.load(x_ptr + start + offsets, mask=mask) + tl.load(bias_ptr + channel)
    y = x * tl.sigmoid(x) * tl.load(scale_ptr + channel)
    tl.store(out_ptr + start + offsets, y, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(channels, 1, 1))
        self.scale = nn.Parameter(torch.rand(channels, 1, 1))

    def forward(self, x):
        batch, channels, height, width = x.shape
        out = torch.empty_like(x)
        block = triton.next_power_of_2(height * width)
        bias_silu_scale[(batch, channels)](x, self.bias, self.scale, out, channels, height * width, BLOCK=block)
        return out
