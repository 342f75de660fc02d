import torch
from torch import nn


class Model(nn.Module):
    def forward(self, tokens, x):
        special = torch.isin(tokens, torch.tensor([11, 40_000, 50_255]))
        return torch.where(special, 0.0, x * 2.0)


def get_inputs():
    return [torch.randint(0, 50257, (16, 16)), torch.randn(16, 16)]


def get_init_inputs():
    return []
