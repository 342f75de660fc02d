import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(16, 64))

    def forward(self, x):
        return F.linear(F.normalize(x, dim=-1), F.normalize(self.w, dim=-1))


def get_inputs():
    return [torch.randn(32, 64)]


def get_init_inputs():
    return []
