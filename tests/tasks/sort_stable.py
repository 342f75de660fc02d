import torch
from torch import nn


class Model(nn.Module):
    def forward(self, keys):
        return torch.sort(keys, dim=1, stable=True)


def get_inputs():
    return [torch.randint(0, 8, (16, 200))]


def get_init_inputs():
    return []
