import math

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        n = torch.arange(24)
        cosines = torch.cos(math.pi / 24 * (n[None] + 0.5) * n[:, None])
        spectrum = (x @ cosines.t()) * torch.where(n % 2 == 0, 1.0, -1.0)
        return (spectrum * torch.where(n == 0, 1 / 24, 2 / 24)) @ cosines


def get_inputs():
    return [torch.randn(96, 24)]


def get_init_inputs():
    return []
