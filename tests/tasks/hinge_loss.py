import torch
from torch import nn

COUNT = 1000


class Model(nn.Module):
    def forward(self, x, labels):
        return torch.clamp(1 - x * labels, min=0).mean()


def get_inputs():
    return [torch.randn(COUNT), torch.randint(0, 2, (COUNT,)).float() * 2 - 1]


def get_init_inputs():
    return []
