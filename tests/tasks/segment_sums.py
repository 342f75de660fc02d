import torch
from torch import nn


class Model(nn.Module):
    """Sums of the parts of a vector that begin at the offsets."""

    def forward(self, x, offsets):
        return torch.segment_reduce(x, "sum", offsets=offsets)


def get_inputs():
    return [torch.randn(16384), torch.arange(0, 16385, 64)]


def get_init_inputs():
    return []
