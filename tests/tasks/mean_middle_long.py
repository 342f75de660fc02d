import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.mean(x, dim=1)


def get_inputs():
    return [torch.rand(2, 16384, 8)]


def get_init_inputs():
    return []
