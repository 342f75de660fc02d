import torch
from torch import nn


class Model(nn.Module):
    """A residual block whose branch is scaled down to a hundred-thousandth, as such blocks begin."""

    def forward(self, x, y):
        return x + 1e-5 * torch.tanh(x * y)


def get_inputs():
    return [torch.randn(128, 512), torch.randn(128, 512)]


def get_init_inputs():
    return []
