import torch
from torch import nn


class Model(nn.Module):
    def forward(self, p, g, m, v, first, second):
        m = first * m + (1 - first) * g
        v = second * v + (1 - second) * g * g
        return p - 0.1 * m / (v.sqrt() + 1e-8)


def get_inputs():
    return [torch.randn(64, 128), torch.randn(64, 128), torch.randn(64, 128), torch.rand(64, 128), 0.9, 0.999]


def get_init_inputs():
    return []
