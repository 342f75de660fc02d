import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.mix = nn.Linear(size, size)
        self.norm1 = nn.LayerNorm(size)
        self.up = nn.Linear(size, 2 * size)
        self.down = nn.Linear(2 * size, size)
        self.norm2 = nn.LayerNorm(size)

    def forward(self, x):
        x = self.norm1(x + self.mix(x))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Model(nn.Module):
    """Eight blocks with their norms behind each sum, as in the first transformers."""

    def __init__(self, size, depth):
        super().__init__()
        self.blocks = nn.ModuleList([Block(size) for _ in range(depth)])
        self.head = nn.Linear(size, 10)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def get_inputs():
    return [torch.rand(16, 32)]


def get_init_inputs():
    return [32, 8]
