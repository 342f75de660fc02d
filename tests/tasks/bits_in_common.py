import torch
from torch import nn


class Model(nn.Module):
    """Bits that two words share, along the columns."""

    def forward(self, x, y):
        return x.t() & y.t()


def get_inputs():
    return [torch.randint(-(2**31), 2**31 - 1, (96, 80), dtype=torch.int32), torch.randint(-(2**31), 2**31 - 1, (96, 80), dtype=torch.int32)]


def get_init_inputs():
    return []
