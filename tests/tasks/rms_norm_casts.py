import torch
from torch import nn


class Model(nn.Module):
    """RMS norm that converts to float32 and back, of numbers that are float32 already."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * y.to(x.dtype)


def get_inputs():
    return [torch.randn(64, 256)]


def get_init_inputs():
    return [256]
