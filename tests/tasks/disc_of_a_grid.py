import torch
from torch import nn


class Model(nn.Module):
    """Which points of a grid lie in a disc, its rim among them, and the products of their places modulo 3."""

    def forward(self, x, y):
        return x**2 + y**2 <= 25, torch.remainder(torch.stack([x, y, x + y]).prod(0), 3).long()


def get_inputs():
    return [torch.randint(-8, 9, (64, 64)).float(), torch.randint(-8, 9, (64, 64)).float()]


def get_init_inputs():
    return []
