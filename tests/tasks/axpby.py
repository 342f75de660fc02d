import torch
from torch import nn

SHAPE = (64, 250)


class Model(nn.Module):
    def forward(self, x, y, alpha, beta, negate):
        out = alpha * x + beta * y
        return -out if negate else out


def get_inputs():
    return [torch.randn(SHAPE), torch.randn(SHAPE), 0.3, 2, True]


def get_init_inputs():
    return []
