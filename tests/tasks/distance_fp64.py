import torch
from torch import nn

POINTS = 48
OTHERS = 57
DIMENSIONS = 9


class Model(nn.Module):
    def forward(self, x, y):
        return (x[:, None] - y[None]).norm(dim=-1)


def get_inputs():
    x = torch.randn(POINTS, DIMENSIONS, dtype=torch.float64)
    return [x, torch.randn(OTHERS, DIMENSIONS, dtype=torch.float64)]


def get_init_inputs():
    return []
