import torch
from torch import nn

BATCH, LENGTH, WIDTH, BASE = 4, 32, 16, 10000.0


class Model(nn.Module):
    def __init__(self, length, width, base):
        super().__init__()
        turns = torch.outer(torch.arange(length).float(), 1.0 / (base ** (torch.arange(0, width, 2).float() / width)))
        self.register_buffer("turns", torch.view_as_real(torch.polar(torch.ones_like(turns), turns)))

    def forward(self, x):
        even, odd = x[..., 0::2], x[..., 1::2]
        cos, sin = self.turns[..., 0], self.turns[..., 1]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH)]


def get_init_inputs():
    return [LENGTH, WIDTH, BASE]
