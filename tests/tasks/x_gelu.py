import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return nn.functional.gelu(x)


def get_inputs():
    return [torch.randn(256, 1024)]


def get_init_inputs():
    return []
