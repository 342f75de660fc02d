import torch
from torch import nn


class Model(nn.Module):
    """A product of float32 matrices, and a bias that is kept in bfloat16."""

    def forward(self, a, b, bias):
        return a @ b + bias.float()


def get_inputs():
    return [torch.randn(64, 128), torch.randn(128, 64), torch.randn(64, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
