import torch
from torch import nn


class Model(nn.Module):
    def forward(self, table, n):
        return table[n.long().clamp(max=31)].exp()


def get_inputs():
    return [torch.randn(32, 16), torch.empty(64).geometric_(0.5)]


def get_init_inputs():
    return []
