import torch
from torch import nn

ROWS = 26
SIZE = 38


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.rotation = nn.Parameter(torch.eye(size))

    def forward(self, x):
        return x @ self.rotation


def get_inputs():
    return [torch.randn(ROWS, SIZE)]


def get_init_inputs():
    return [SIZE]
