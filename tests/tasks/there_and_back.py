import torch
from torch import nn


class Model(nn.Module):
    """Sums and differences of neighbours, twice: what went in comes out."""

    def forward(self, x):
        for _ in range(2):
            even, odd = x[:, ::2], x[:, 1::2]
            x = torch.stack([even + odd, even - odd], -1).flatten(1)
        return x / 2


def get_inputs():
    return [torch.randn(96, 80)]


def get_init_inputs():
    return []
