import torch
from torch import nn

COUNT, SIZE = 16, 6


class Model(nn.Module):
    def forward(self, a):
        return torch.linalg.det(a)


def get_inputs():
    return [torch.randn(COUNT, SIZE, SIZE)]


def get_init_inputs():
    return []
