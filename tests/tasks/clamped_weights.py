import torch
from torch import nn

ROWS = 24
SIZE = 32


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = nn.Linear(size, size, bias=False)
        self.linear.weight.data.clamp_(min=0.0)

    def forward(self, x):
        return x @ self.linear.weight.clamp(min=0.0).t()


def get_inputs():
    return [torch.rand(ROWS, SIZE)]


def get_init_inputs():
    return [SIZE]
