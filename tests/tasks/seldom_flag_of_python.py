import random

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, reverse, last):
        y = torch.tanh(x)
        if reverse:
            y = y.flip(-1)
        return y[:, :last].contiguous()


def get_inputs():
    return [torch.randn(64, 96), random.random() < 0.005, random.randint(1, 96)]


def get_init_inputs():
    return []
