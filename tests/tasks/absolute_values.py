import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.abs(x)


def get_inputs():
    return [torch.randn(24, 16)]


def get_init_inputs():
    return []
