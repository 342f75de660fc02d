import torch
from torch import nn


class Model(nn.Module):
    def forward(self, p, g):
        finite = torch.isfinite(g).all()
        return torch.where(finite, p - 0.1 * g, p)


def get_inputs():
    return [torch.randn(64, 128), torch.randn(64, 128)]


def get_init_inputs():
    return []
