import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("keep", torch.ones(256))

    def forward(self, x):
        return torch.where(self.keep == 0, torch.zeros(()), x).cumsum(1)


def get_inputs():
    return [torch.randn(64, 256)]


def get_init_inputs():
    return []
