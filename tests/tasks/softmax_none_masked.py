import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, mask):
        return torch.softmax(x.masked_fill(mask, -1e9), dim=1)


def get_inputs():
    return [torch.randn(64, 100), torch.zeros(64, 100, dtype=torch.bool)]


def get_init_inputs():
    return []
