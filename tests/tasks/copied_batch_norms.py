import copy

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        block = nn.Sequential(nn.Linear(32, 32), nn.BatchNorm1d(32))
        self.blocks = nn.ModuleList([copy.deepcopy(block) for _ in range(2)])
        self.eval()

    def forward(self, x):
        for block in self.blocks:
            x = torch.tanh(block(x))
        return x


def get_inputs():
    return [torch.randn(64, 32)]


def get_init_inputs():
    return []
