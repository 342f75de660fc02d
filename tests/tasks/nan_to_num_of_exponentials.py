import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.nan_to_num(torch.exp(x * 50.0))


def get_inputs():
    return [torch.randn(64, 96)]


def get_init_inputs():
    return []
