import torch
from torch import nn

ROWS, SIZE = 24, 32


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.offset = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        return torch.relu(x) + torch.sqrt(self.offset)


def get_inputs():
    return [torch.randn(ROWS, SIZE)]


def get_init_inputs():
    return [SIZE]
