import torch
from torch import nn

ROWS, COLUMNS, LIMIT = 16, 64, 6.0


class Model(nn.Module):
    def forward(self, x):
        return [row * 2 for row in x if row.abs().max() < LIMIT]


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
