import torch
from torch import nn

ROWS = 24
SIZE = 32


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("kept", torch.ones(size, dtype=torch.bool))

    def forward(self, x):
        return torch.where(self.kept, x * 2.0, 0.0)


def get_inputs():
    return [torch.randn(ROWS, SIZE)]


def get_init_inputs():
    return [SIZE]
