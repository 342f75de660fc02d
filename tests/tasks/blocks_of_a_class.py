import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.up = nn.Linear(size, size)

    def forward(self, x):
        return torch.relu(self.up(x))


class Model(nn.Module):
    """Equal blocks, made by a method that is told their class."""

    def __init__(self, size, depth):
        super().__init__()
        self.blocks = self._make(Block, size, depth)

    def _make(self, block, size, depth):
        return nn.Sequential(*[block(size) for _ in range(depth)])

    def forward(self, x):
        return self.blocks(x)


def get_inputs():
    return [torch.randn(16, 48)]


def get_init_inputs():
    return [48, 3]
