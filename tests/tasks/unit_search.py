import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, edges):
        return torch.searchsorted(edges, x)


def get_inputs():
    edges = torch.cumsum(torch.rand(64), dim=0)
    return [32.0 * torch.rand(500), edges]


def get_init_inputs():
    return []
