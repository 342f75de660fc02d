import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.to(torch.bfloat16)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)) + x)


def get_inputs():
    return [torch.randn(4, 8, 24, 24, dtype=torch.bfloat16)]


def get_init_inputs():
    return [8]
