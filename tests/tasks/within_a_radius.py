import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, radius):
        return torch.where(x.abs() < radius, x * x, radius * radius)


def get_inputs():
    return [torch.randn(64, 1024), torch.full((1024,), 10.0)]


def get_init_inputs():
    return []
