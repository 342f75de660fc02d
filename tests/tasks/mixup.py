import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, y, share):
        share = max(share, 1 - share)
        return share * x + (1 - share) * y


def get_inputs():
    return [torch.randn(64, 128), torch.randn(64, 128), 0.7]


def get_init_inputs():
    return []
