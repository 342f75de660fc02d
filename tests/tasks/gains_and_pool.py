import torch
from torch import nn


class Model(nn.Module):
    """A convolution, a norm of groups, a scale, and the largest of each window."""

    def __init__(self, channels, features, groups):
        super().__init__()
        self.conv = nn.Conv2d(channels, features, 3)
        self.norm = nn.GroupNorm(groups, features)
        self.scale = nn.Parameter(torch.ones(features, 1, 1))

    def forward(self, x):
        return torch.max_pool2d(self.norm(self.conv(x)) * self.scale, 2)


def get_inputs():
    return [torch.rand(2, 4, 18, 18)]


def get_init_inputs():
    return [4, 8, 2]
