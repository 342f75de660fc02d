import torch
from torch import nn


class Model(nn.Module):
    """The nearest of what a mask leaves, and of other rows the number of changes."""

    def forward(self, near, mask, states):
        return near.masked_fill(~mask, -1e9).amax(1), (states[:, 1:] != states[:, :-1]).sum(1)


def get_inputs():
    return [torch.randn(32, 48), torch.rand(32, 48) < 0.5, torch.randint(0, 20, (32, 48))]


def get_init_inputs():
    return []
