import torch
from torch import nn


class Model(nn.Module):
    """A layer of float32 on bfloat16 numbers."""

    def __init__(self, width, features):
        super().__init__()
        self.linear = nn.Linear(width, features)

    def forward(self, x):
        return torch.relu(self.linear(x.float())).to(x.dtype)


def get_inputs():
    return [torch.randn(64, 128).bfloat16()]


def get_init_inputs():
    return [128, 64]
