import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, cap):
        return cap * torch.tanh(x / cap)


def get_inputs():
    return [torch.randn(128, 256), 30.0]


def get_init_inputs():
    return []
