import torch
import torch.nn.functional as F
from torch import nn

ROWS = 61
COLS = 515


class Model(nn.Module):
    def forward(self, x):
        return F.gelu(x, approximate="tanh")


def get_inputs():
    return [torch.randn(ROWS, COLS).half()]


def get_init_inputs():
    return []
