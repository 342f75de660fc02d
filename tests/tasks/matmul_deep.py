import torch
from torch import nn

DEPTH = 32768


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.rand(8, DEPTH), torch.rand(DEPTH, 8)]


def get_init_inputs():
    return []
