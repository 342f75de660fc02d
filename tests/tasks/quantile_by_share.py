import math

import torch
from torch import nn


class Model(nn.Module):
    """Distance from a quantile of the logistic distribution with a row's mean and deviation, with straight tails."""

    def __init__(self):
        super().__init__()
        self.low = 0.02

    def forward(self, x, share: float):
        high = 1.0 - self.low
        if share < self.low:
            level = math.log(self.low / high) - (self.low - share) * 51.0
        elif share > high:
            level = math.log(high / self.low) + (share - high) * 51.0
        else:
            level = math.log(share / (1.0 - share))
        limit = x.mean(-1, keepdim=True) + x.std(-1, keepdim=True) * level
        return x - limit


def get_inputs():
    return [torch.randn(8, 128), 0.6]


def get_init_inputs():
    return []
