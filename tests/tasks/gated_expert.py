import torch
from torch import nn


class Model(nn.Module):
    """Each row by the expert that its gate chooses."""

    def __init__(self, size, experts):
        super().__init__()
        self.gate = nn.Parameter(torch.randn(experts, size))
        self.experts = nn.Parameter(torch.randn(experts, size) * size**-0.5)

    def forward(self, x):
        chosen = (x @ self.gate.T).argmax(-1)
        return (x * self.experts[chosen]).sum(-1)


def get_inputs():
    return [torch.randn(16, 64)]


def get_init_inputs():
    return [64, 8]
