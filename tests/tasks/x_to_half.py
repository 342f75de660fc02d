import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x.to(torch.float16)


def get_inputs():
    return [torch.randn(60, 700)]


def get_init_inputs():
    return []
