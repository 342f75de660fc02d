import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.sin(30 * x), torch.where(x > 40, 40.0, torch.nn.functional.softplus(x))


def get_inputs():
    return [torch.randn(64, 128)]


def get_init_inputs():
    return []
