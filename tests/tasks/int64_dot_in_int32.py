import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def forward(self, a, b):
        return (a * b).sum(-1)


def get_inputs():
    return [torch.randint(-1000, 1001, (16, 8192)), torch.randint(-1000, 1001, (16, 8192))]


def get_init_inputs():
    return []
