import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x * 2 if x.dtype == torch.float32 else x * 3


def get_inputs():
    return [torch.randn(96, 128)]


def get_init_inputs():
    return []
