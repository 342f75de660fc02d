import torch
from torch import nn

INPUTS, OUTPUTS = 6, 8


class Model(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.ConvTranspose2d(inputs, outputs, 3, stride=2, padding=1, output_padding=1)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(2, 6, 7, 9)]


def get_init_inputs():
    return [INPUTS, OUTPUTS]
