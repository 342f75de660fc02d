import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        s = x.abs().sum(1, keepdim=True)
        return x / torch.where(s == 0, torch.ones_like(s), s)


def get_inputs():
    return [torch.randn(8, 16, 8, 8)]


def get_init_inputs():
    return []
