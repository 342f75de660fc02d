import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(16))

    def forward(self, x):
        return x + F.log_softmax(self.w, -1)


def get_inputs():
    return [torch.randn(32, 16)]


def get_init_inputs():
    return []
