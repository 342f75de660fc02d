import torch
from torch import nn


class Model(nn.Module):
    """Values by their mean size, which Python reads, and others with 2 in place of NaN."""

    def forward(self, x, y):
        return x / x.abs().mean().item() + torch.nan_to_num(y, nan=2.0)


def get_inputs():
    return [torch.randn(8, 8), torch.randn(8, 8)]


def get_init_inputs():
    return []
