import torch
from torch import nn

BATCH = 4
CHANNELS = 12


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels).eval()

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, 7, 9)]


def get_init_inputs():
    return [CHANNELS]
