import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return (x.argsort(1).argsort(1) + 1) / x.shape[1]


def get_inputs():
    return [torch.randn(32, 100)]


def get_init_inputs():
    return []
