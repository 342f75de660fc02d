import torch
from torch import nn


class Model(nn.Module):
    def forward(self, gradient, x):
        return torch.ops.aten.hardsigmoid_backward(gradient, x)


def get_inputs():
    return [torch.randn(32, 33), torch.randn(32, 33)]


def get_init_inputs():
    return []
