import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.unused = nn.Parameter(torch.randn(4))

    def forward(self, x):
        return torch.fft.irfft(torch.fft.rfft(x), n=x.shape[-1])


def get_inputs():
    return [torch.randn(64, 48)]


def get_init_inputs():
    return []
