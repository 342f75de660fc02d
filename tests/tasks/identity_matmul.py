import torch
from torch import nn

ROWS = 31
SIZE = 40


class Model(nn.Module):
    def forward(self, x, basis):
        return x @ basis


def get_inputs():
    return [torch.randn(ROWS, SIZE), torch.eye(SIZE)]


def get_init_inputs():
    return []
