import torch
from torch import nn


class Model(nn.Module):
    """Lengths of token rows up to their end, which Python looks for, and the sums of their weights until there."""

    def __init__(self):
        super().__init__()
        self.weights = nn.Parameter(torch.randn(64))

    def forward(self, tokens):
        lengths = [row.index(2) if 2 in row else len(row) for row in tokens.tolist()]
        weights = self.weights[tokens % 64]
        return torch.stack([row[:length].sum() for row, length in zip(weights, lengths)])


def get_inputs():
    return [torch.randint(0, 32000, (16, 32))]


def get_init_inputs():
    return []
