import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        error = x - x.bfloat16().float()
        return 10 * torch.log10(x.square().mean(-1) / error.square().mean(-1))


def get_inputs():
    return [torch.randn(96, 128)]


def get_init_inputs():
    return []
