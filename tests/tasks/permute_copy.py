import torch
from torch import nn


class Model(nn.Module):
    """Rows and columns change places, in memory too."""

    def forward(self, x):
        return torch.permute_copy(torch.relu(x), (0, 2, 1))


def get_inputs():
    return [torch.randn(3, 40, 56)]


def get_init_inputs():
    return []
