import torch
from torch import nn

DATA = torch.randn(512, 64)


class Model(nn.Module):
    """Rows of a data set that is drawn when the task is imported, clipped."""

    def forward(self, x):
        return x.clamp(-6.0, 6.0) * 2.0


def get_inputs():
    return [DATA[torch.randint(0, 512, (32,))]]


def get_init_inputs():
    return []
