import torch
from torch import nn


class Model(nn.Module):
    """The least weight of each row's edges, and whether there is no edge."""

    def forward(self, weights, edges):
        least = torch.where(edges, weights, torch.full_like(weights, float("inf"))).amin(1)
        return least, torch.isinf(least)


def get_inputs():
    return [torch.rand(40, 40), torch.rand(40, 40) < 0.4]


def get_init_inputs():
    return []
