import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        top = x.amax(1, keepdim=True)
        top = torch.where(top == float("-inf"), torch.zeros(()), top)
        weights = (x - top).exp()
        return weights / (weights.sum(1, keepdim=True) + 1e-9)


def get_inputs():
    return [torch.randn(64, 256)]


def get_init_inputs():
    return []
