import torch
from torch import nn


class Model(nn.Module):
    """Normalises by the statistics of the batch, and keeps running ones."""

    def __init__(self, features):
        super().__init__()
        self.norm = nn.BatchNorm1d(features)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(64, 96) + 1.0]


def get_init_inputs():
    return [96]
