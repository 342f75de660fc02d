import torch
from torch import nn
from torch.nn import functional


class Model(nn.Module):
    def forward(self, x):
        return functional.hardshrink(x)


def get_inputs():
    return [torch.randn(64, 64)]


def get_init_inputs():
    return []
