import torch
from torch import nn


class Model(nn.Module):
    def forward(self, tokens, x):
        return x * tokens.clamp(1, 50_255)


def get_inputs():
    return [torch.randint(0, 50_257, (64, 16)), torch.randn(64, 16)]


def get_init_inputs():
    return []
