import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x >> 31


def get_inputs():
    return [torch.randint(-(2**31), 2**31 - 1, (96, 80), dtype=torch.int32)]


def get_init_inputs():
    return []
