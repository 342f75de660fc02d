import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.nan_to_num(torch.log(x))


def get_inputs():
    return [torch.rand(64, 96) - 0.1]


def get_init_inputs():
    return []
