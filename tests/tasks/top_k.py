import torch
from torch import nn


class Model(nn.Module):
    """The four largest values of each row, and where they are."""

    def forward(self, x):
        return torch.topk(x, 4, dim=-1)


def get_inputs():
    return [torch.randn(100, 50)]


def get_init_inputs():
    return []
