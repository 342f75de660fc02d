import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, order):
        p = torch.softmax(x, -1)
        if bool(order == 1.0):
            return -(p * p.clamp(min=1e-12).log()).sum(-1)
        return (1 - (p**order).sum(-1)) / (order - 1)


def get_inputs():
    return [torch.randn(64, 128), torch.tensor(1.5)]


def get_init_inputs():
    return []
