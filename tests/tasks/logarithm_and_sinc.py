import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        one = torch.ones_like(x)
        return x.abs().log(), torch.where(x == 0, one, x.sin() / torch.where(x == 0, one, x))


def get_inputs():
    return [torch.randn(64, 128)]


def get_init_inputs():
    return []
