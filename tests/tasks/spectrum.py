import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.fft.rfft(x).abs()


def get_inputs():
    return [torch.randn(16, 128)]


def get_init_inputs():
    return []
