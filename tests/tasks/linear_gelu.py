import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.fc = nn.Linear(i, o)
    def forward(self, x):
        return F.gelu(self.fc(x))


def get_inputs():
    return [torch.randn(32, 256)]


def get_init_inputs():
    return [256, 192]
