import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return F.interpolate(x, scale_factor=2, mode="nearest-exact")


def get_inputs():
    return [torch.randn(4, 8, 24, 24)]


def get_init_inputs():
    return []
