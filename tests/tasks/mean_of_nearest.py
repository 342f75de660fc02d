import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        nearest = torch.cdist(x, x).topk(4, largest=False, dim=1).indices
        return x[nearest].mean(1)


def get_inputs():
    return [torch.randn(100, 4)]


def get_init_inputs():
    return []
