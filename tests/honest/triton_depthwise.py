# honest: taps in a static loop, neighbours masked at both ends
# task: conv_depthwise
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def depthwise(
    x_ptr, weight_ptr, bias_ptr, out_ptr, channels, length,
    TAPS: tl.constexpr, DILATION: tl.constexpr, PADDING: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    channel = row % channels
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32) + tl.load(bias_ptr + channel)
    for tap in tl.static_range(TAPS):
        at = i + tap * DILATION - PADDING
        x = tl.load(x_ptr + row * length + at, mask=(at >= 0) & (at < length), other=0.0)
        total += x * tl.load(weight_ptr + channel * TAPS + tap)
    tl.store(out_ptr + row * length + i, total, mask=i < length)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv1d(channels, channels, kernel_size=5, padding=4, dilation=2, groups=channels)

    def forward(self, x):
        batch, channels, length = x.shape
        out = torch.empty_like(x)
        (taps,), (dilation,), (padding,) = self.conv.kernel_size, self.conv.dilation, self.conv.padding
        depthwise[(batch * channels,)](
            x, self.conv.weight, self.conv.bias, out, channels, length, taps, dilation, padding, BLOCK=256
        )
        return out
