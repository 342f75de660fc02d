import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(16, 64))

    def forward(self, x):
        s = self.w.abs().amax(-1, keepdim=True).clamp(min=1e-8) / 127
        return F.linear(x, (self.w / s).round() * s)


def get_inputs():
    return [torch.randn(32, 64)]


def get_init_inputs():
    return []
