import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        a = self.a
        return torch.where(a == 0, x, x + torch.sin(a * x) ** 2 / torch.where(a == 0, torch.ones_like(a), a))


def get_inputs():
    return [torch.randn(32, 32)]


def get_init_inputs():
    return []
