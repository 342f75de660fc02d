import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(48, 40)
        self.norm = nn.BatchNorm1d(40)

    def forward(self, x):
        return torch.relu(self.norm(self.linear(x)))


def get_inputs():
    return [torch.randn(64, 48)]


def get_init_inputs():
    return []
