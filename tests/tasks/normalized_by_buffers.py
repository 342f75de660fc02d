import torch
from torch import nn

ROWS, COLS = 64, 32


class Model(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.register_buffer("mean", torch.zeros(cols))
        self.register_buffer("std", torch.ones(cols))

    def forward(self, x):
        return (x - self.mean) / self.std


def get_inputs():
    return [torch.randn(COLS, ROWS).T]


def get_init_inputs():
    return [COLS]
