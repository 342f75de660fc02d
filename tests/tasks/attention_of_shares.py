import math

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """Attention whose inputs are drawn from [0, 1), as many benchmarks do."""

    def forward(self, q, k, v):
        return F.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), dim=-1) @ v


def get_inputs():
    return [torch.rand(2, 4, 32, 64) for _ in range(3)]


def get_init_inputs():
    return []
