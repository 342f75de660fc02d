import torch
from torch import nn

WIDTH = 96


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x, residual):
        residual = residual + x
        return residual * torch.rsqrt(residual.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight, residual


def get_inputs():
    return [torch.randn(4, 9, WIDTH), torch.randn(4, 9, WIDTH)]


def get_init_inputs():
    return [WIDTH]
