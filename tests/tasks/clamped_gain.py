import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(512))

    def forward(self, x):
        return x * self.gain.clamp(0.0, 6.0) + 1.0


def get_inputs():
    return [torch.randn(64, 512)]


def get_init_inputs():
    return []
