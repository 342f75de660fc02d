import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("edges", torch.tensor([-1.0, -0.25, 0.5, 2.0]))

    def forward(self, x):
        return torch.bucketize(x, self.edges, right=True)


def get_inputs():
    return [torch.randn(64, 512)]


def get_init_inputs():
    return []
