import torch
from torch import nn


class Model(nn.Module):
    """Numbers of the bits of bfloat16."""

    def forward(self, x):
        return (x.to(torch.int32) << 16).view(torch.float32)


def get_inputs():
    return [torch.randn(96, 80).to(torch.bfloat16).view(torch.int16)]


def get_init_inputs():
    return []
