import torch
from torch import nn

BATCH, LENGTH, HEADS, WIDTH = 2, 12, 3, 16


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("frequencies", 10000.0 ** (-torch.arange(0, width, 2) / width))

    def forward(self, x):
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        angles = torch.outer(torch.arange(x.shape[1]), self.frequencies)
        turned = pairs * torch.polar(torch.ones_like(angles), angles)[None, :, None]
        return torch.view_as_real(turned).flatten(-2)


def get_inputs():
    return [torch.randn(BATCH, LENGTH, HEADS, WIDTH)]


def get_init_inputs():
    return [WIDTH]
