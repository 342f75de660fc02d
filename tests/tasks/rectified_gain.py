import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(48))

    def forward(self, x):
        return x * torch.relu(self.gain)


def get_inputs():
    return [torch.randn(64, 48)]


def get_init_inputs():
    return []
