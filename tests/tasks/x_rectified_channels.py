import torch
from torch import nn


class Model(nn.Module):
    """To channels last, and rectified, which changes nothing of what torch.rand draws."""

    def __init__(self):
        super().__init__()
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(x.permute(0, 2, 3, 1).contiguous())


def get_inputs():
    return [torch.rand(4, 32, 16, 16)]


def get_init_inputs():
    return []
