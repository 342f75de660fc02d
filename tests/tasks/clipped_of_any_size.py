import torch
from torch import nn

ROWS = 64
COLUMNS = 96
SHAPE_RANGES = {"ROWS": (1, 200), "COLUMNS": (1, 200)}


class Model(nn.Module):
    def forward(self, x):
        return x.clamp(-6.5, 6.5)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
