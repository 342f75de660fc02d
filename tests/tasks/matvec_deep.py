import torch
from torch import nn

DEPTH = 65536


class Model(nn.Module):
    def forward(self, a, x):
        return a @ x


def get_inputs():
    return [torch.rand(16, DEPTH), torch.rand(DEPTH, 1)]


def get_init_inputs():
    return []
