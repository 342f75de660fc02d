import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(16).to(torch.bfloat16).eval()

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(4, 16, 24, 24, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
