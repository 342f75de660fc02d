import torch
from torch import nn


class Model(nn.Module):
    """How many features of each row are beyond a threshold, and the mean of what is."""

    def __init__(self, width, features):
        super().__init__()
        self.linear = nn.Linear(width, features)

    def forward(self, x):
        y = self.linear(x)
        return (y > 0.25).sum(dim=1), torch.where(y > 0.25, y, 0.0).mean(dim=1)


def get_inputs():
    return [torch.randn(300, 64)]


def get_init_inputs():
    return [64, 200]
