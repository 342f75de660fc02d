import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return nn.functional.max_pool1d(x[:, None], 8, 8)[:, 0]


def get_inputs():
    return [(torch.rand(64, 512) > 0.9).float()]


def get_init_inputs():
    return []
