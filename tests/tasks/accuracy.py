import torch
from torch import nn


class Model(nn.Module):
    """Share of rows whose largest score is that of their label."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, x, labels):
        return (self.layer(x).argmax(-1) == labels).float().mean()


def get_inputs():
    return [torch.randn(64, 64), torch.randint(0, 10, (64,))]


def get_init_inputs():
    return []
