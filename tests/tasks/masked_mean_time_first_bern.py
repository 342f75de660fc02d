import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def forward(self, x, mask):
        m = mask.unsqueeze(-1)
        return (x * m).sum(0) / m.sum(0).clamp(min=1)


def get_inputs():
    return [torch.randn(64, 32, 16), torch.bernoulli(torch.full((64, 32), 0.8))]


def get_init_inputs():
    return []
