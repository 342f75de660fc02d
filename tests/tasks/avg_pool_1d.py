import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, size, stride, padding):
        super().__init__()
        self.pool = nn.AvgPool1d(size, stride=stride, padding=padding)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.randn(4, 6, 50)]


def get_init_inputs():
    return [4, 2, 1]
