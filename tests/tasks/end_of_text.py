import torch
from torch import nn


class Model(nn.Module):
    def forward(self, tokens, x):
        return torch.where(tokens == 50256, torch.zeros_like(x), x * 2.0)


def get_inputs():
    return [torch.randint(0, 50257, (64, 16)), torch.randn(64, 16)]


def get_init_inputs():
    return []
