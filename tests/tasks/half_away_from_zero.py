import torch
from torch import nn


class Model(nn.Module):
    """Rounds halves away from zero."""

    def forward(self, x):
        return torch.trunc(x + torch.copysign(torch.tensor(0.5), x))


def get_inputs():
    return [torch.randn(64, 128)]


def get_init_inputs():
    return []
