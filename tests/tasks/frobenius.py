import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x / torch.norm(x, p="fro")


def get_inputs():
    return [torch.rand(4, 8, 128, 128)]


def get_init_inputs():
    return []
