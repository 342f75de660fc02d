import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, eps):
        return x / (x.norm(dim=1, keepdim=True) + eps)


def get_inputs():
    return [torch.randn(64, 128), 1e-6]


def get_init_inputs():
    return []
