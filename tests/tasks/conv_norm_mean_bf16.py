import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, channels, features, groups):
        super().__init__()
        self.conv = nn.Conv2d(channels, features, 3)
        self.norm = nn.GroupNorm(groups, features)
        self.to(torch.bfloat16)

    def forward(self, x):
        return self.norm(self.conv(x)).mean((1, 2, 3))


def get_inputs():
    return [torch.randn(8, 3, 14, 14, dtype=torch.bfloat16)]


def get_init_inputs():
    return [3, 8, 4]
