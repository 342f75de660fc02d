import torch
from torch import nn

ROWS = 20
SIZE = 30


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.table = nn.Parameter(torch.randn(9, size))
        self.mix = nn.Parameter(torch.randn(size, size) / size**0.5)

    def forward(self, x):
        return x + torch.relu(self.table @ self.mix).sum(dim=0)


def get_inputs():
    return [torch.randn(ROWS, SIZE)]


def get_init_inputs():
    return [SIZE]
