import torch
from torch import nn

ROWS = 24
SIZE = 32


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = nn.Linear(size, size)
        nn.init.zeros_(self.linear.bias)
        self.register_buffer("limit", torch.full((1,), 4.0))

    def forward(self, x):
        if float(self.limit) != 4.0:
            raise ValueError("the limit is fixed")
        return self.linear(x).clamp(max=float(self.limit))


def get_inputs():
    return [torch.randn(ROWS, SIZE)]


def get_init_inputs():
    return [SIZE]
