import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, mask):
        kept = mask.float()
        return (x * kept).sum(dim=1) / kept.sum(dim=1).clamp(min=1.0)


def get_inputs():
    return [torch.randn(64, 100), torch.rand(64, 100) < 0.4]


def get_init_inputs():
    return []
