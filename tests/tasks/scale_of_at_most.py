import torch
from torch import nn


class Model(nn.Module):
    """Cosines times a scale whose exponential is at most 100, as in CLIP."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.6593))

    def forward(self, x):
        return x * torch.minimum(self.scale.exp(), torch.tensor(100.0))


def get_inputs():
    return [torch.randn(16, 32)]


def get_init_inputs():
    return []
