import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return F.silu(x)


def get_inputs():
    return [torch.randn(64, 64, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
