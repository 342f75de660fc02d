import torch
from torch import nn

STEPS, BATCH, INPUT, HIDDEN, LAYERS = 6, 3, 8, 10, 2


class Model(nn.Module):
    def __init__(self, inputs, hidden, layers):
        super().__init__()
        self.gru = nn.GRU(inputs, hidden, layers)

    def forward(self, x, h):
        return self.gru(x, h)


def get_inputs():
    return [torch.randn(STEPS, BATCH, INPUT), torch.randn(LAYERS, BATCH, HIDDEN)]


def get_init_inputs():
    return [INPUT, HIDDEN, LAYERS]
