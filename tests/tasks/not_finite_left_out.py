import torch
from torch import nn


class Model(nn.Module):
    """Mean of a row, of what is finite in it."""

    def forward(self, x):
        known = torch.isfinite(x)
        return torch.where(known, x, 0.0).sum(dim=1) / known.sum(dim=1).clamp(min=1)


def get_inputs():
    return [torch.randn(128, 256)]


def get_init_inputs():
    return []
