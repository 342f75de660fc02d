import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, table):
        rows = (x * 16.0).long()
        return table[rows] * 2.0


def get_inputs():
    return [torch.rand(300), torch.randn(16, 8)]


def get_init_inputs():
    return []
