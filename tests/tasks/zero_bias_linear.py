import torch
from torch import nn

ROWS = 26
SIZE = 44


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = nn.Linear(size, size)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x):
        return self.linear(x)


def get_inputs():
    return [torch.randn(ROWS, SIZE)]


def get_init_inputs():
    return [SIZE]
