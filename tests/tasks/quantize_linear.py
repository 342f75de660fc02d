import torch
from torch import nn


class Model(nn.Module):
    """Activations in steps of a sixteenth, clamped like eight-bit integers."""

    def __init__(self, width, features):
        super().__init__()
        self.linear = nn.Linear(width, features)

    def forward(self, x):
        return torch.clamp(torch.round(self.linear(x) * 16.0), -128, 127) / 16.0


def get_inputs():
    return [torch.randn(300, 64)]


def get_init_inputs():
    return [64, 200]
