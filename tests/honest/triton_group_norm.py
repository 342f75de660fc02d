# honest: a persistent loop of few programs over all groups; float64 statistics
# task: group_norm
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def group_norm(
    x_ptr, weight_ptr, bias_ptr, out_ptr, num_groups, groups_per_image, channels_per_group, plane, eps,
    BLOCK: tl.constexpr,
):  # fmt: skip
    size = channels_per_group * plane
    i = tl.arange(0, BLOCK)
    for group in range(tl.program_id(0), num_groups, tl.num_programs(0)):
        x = tl.load(x_ptr + group * size + i, mask=i < size, other=0.0).to(tl.float64)
        mean = tl.sum(x, axis=0) / size
        centred = tl.where(i < size, x - mean, 0.0)
        scale = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / size + eps)
        channel = group % groups_per_image * channels_per_group + i // plane
        weight = tl.load(weight_ptr + channel, mask=i < size)
        bias = tl.load(bias_ptr + channel, mask=i < size)
        tl.store(out_ptr + group * size + i, (centred * scale * weight + bias).to(tl.float32), mask=i < size)


class ModelNew(nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.groups = groups
        self.weight = nn.Parameter(torch.empty(channels).normal_())
        self.bias = nn.Parameter(torch.empty(channels).normal_())

    def forward(self, x):
        batch, channels, height, width = x.shape
        out = torch.empty_like(x)
        per_group = channels // self.groups
        group_norm[(3,)](
            x, self.weight, self.bias, out, batch * self.groups, self.groups, per_group, height * width, 1e-5, BLOCK=512
        )
        return out
