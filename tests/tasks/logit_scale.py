import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.65))

    def forward(self, x):
        return x * self.scale.exp().clamp(max=100.0)


def get_inputs():
    return [torch.randn(64, 512)]


def get_init_inputs():
    return []
