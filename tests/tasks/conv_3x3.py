import torch
from torch import nn

BATCH, INPUTS, OUTPUTS, SIDE = 2, 16, 8, 16


class Model(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, INPUTS, SIDE, SIDE)]


def get_init_inputs():
    return [INPUTS, OUTPUTS]
