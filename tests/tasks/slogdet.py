import torch
from torch import nn

COUNT, SIZE = 16, 12


class Model(nn.Module):
    def forward(self, a):
        return torch.linalg.slogdet(a)


def get_inputs():
    return [torch.randn(COUNT, SIZE, SIZE)]


def get_init_inputs():
    return []
