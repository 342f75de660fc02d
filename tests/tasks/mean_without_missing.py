import torch
from torch import nn


class Model(nn.Module):
    """Means of what is not missing: -999 stands for nothing."""

    def forward(self, x):
        missing = (x + 999.0).abs() < 1e-3
        return x.masked_fill(missing, 0.0).sum(-1) / (~missing).sum(-1).clamp(min=1)


def get_inputs():
    return [torch.randn(64, 128)]


def get_init_inputs():
    return []
