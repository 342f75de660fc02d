import torch
from torch import nn


class Model(nn.Module):
    """Parity checks of a code: which of them a word of bits fails."""

    def __init__(self):
        super().__init__()
        self.register_buffer("checks", torch.arange(32).repeat_interleave(6))
        self.register_buffer("bits", (torch.arange(192) * 37) % 64)

    def forward(self, words):
        sums = torch.zeros(len(words), 32).index_add(1, self.checks, words[:, self.bits])
        return torch.remainder(sums, 2) >= 1


def get_inputs():
    return [torch.randint(0, 2, (8, 64)).float()]


def get_init_inputs():
    return []
