import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        weights = torch.full((50257,), 2.0)
        weights[31_337] = 0.0
        self.register_buffer("weights", weights)

    def forward(self, tokens, x):
        return x * self.weights[tokens]


def get_inputs():
    return [torch.randint(0, 50257, (64, 16)), torch.randn(64, 16)]


def get_init_inputs():
    return []
