import torch
from torch import nn


class Model(nn.Module):
    """Eight-bit integers, with a scale for each row."""

    def forward(self, x):
        scale = x.abs().amax(dim=-1, keepdim=True).clamp(min=1e-8) / 127.0
        return torch.round(x / scale).clamp(-128, 127).to(torch.int8), scale.squeeze(-1)


def get_inputs():
    return [torch.randn(64, 300)]


def get_init_inputs():
    return []
