import numpy as np
import torch
from torch import nn

SCALE = float(np.float32(255.0))


class Model(nn.Module):
    """An image to eight bits."""

    def forward(self, x):
        return torch.clamp(torch.round(x * SCALE), 0.0, SCALE)


def get_inputs():
    return [torch.rand(4, 3, 16, 16)]


def get_init_inputs():
    return []
