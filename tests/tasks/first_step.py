import torch
from torch import nn


class Model(nn.Module):
    def forward(self, m, g, step):
        new = 0.9 * m + 0.1 * g
        return new / (1.0 - 0.9 ** step.float())


def get_inputs():
    return [torch.randn(65536), torch.randn(65536), torch.tensor(1)]


def get_init_inputs():
    return []
