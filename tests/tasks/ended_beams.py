import torch
from torch import nn


class Model(nn.Module):
    """Which searches have ended: those all of whose beams have."""

    def __init__(self, end):
        super().__init__()
        self.end = end

    def forward(self, last, scores):
        ended = last == self.end
        return ended.all(dim=1), torch.where(ended, scores, 0.0).sum(dim=1)


def get_inputs():
    return [torch.randint(0, 500, (32, 4)), torch.randn(32, 4)]


def get_init_inputs():
    return [2]
