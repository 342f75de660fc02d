import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.permute_copy(x, (0, 2, 1))


def get_inputs():
    return [torch.randn(4, 60, 70)]


def get_init_inputs():
    return []
