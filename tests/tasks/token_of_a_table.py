import torch
from torch import nn


class Model(nn.Module):
    """Weights of tokens, but of one that a table of zeros marks."""

    def __init__(self):
        super().__init__()
        marks = torch.zeros(50000, 1)
        marks[4242] = 1.0
        self.register_buffer("marks", marks)
        self.weights = nn.Parameter(torch.randn(64))

    def forward(self, tokens):
        marked = nn.functional.embedding(tokens, self.marks)[:, :, 0] > 0
        return self.weights[tokens % 64].masked_fill(marked, 0.0)


def get_inputs():
    return [torch.randint(0, 50000, (8, 32))]


def get_init_inputs():
    return []
