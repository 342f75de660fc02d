import torch
from torch import nn

ROWS = 24
SIZE = 32


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.direction = nn.Parameter(torch.randn(size, size) / size**0.5)
        self.gain = nn.Parameter(self.direction.detach().norm(dim=1, keepdim=True))

    def forward(self, x):
        return x @ (self.direction * (self.gain / self.direction.norm(dim=1, keepdim=True))).t()


def get_inputs():
    return [torch.randn(ROWS, SIZE)]


def get_init_inputs():
    return [SIZE]
