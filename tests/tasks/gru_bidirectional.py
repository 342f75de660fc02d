import torch
from torch import nn

STEPS, BATCH, INPUT, HIDDEN, LAYERS = 6, 3, 8, 10, 2


class Model(nn.Module):
    def __init__(self, inputs, hidden, layers):
        super().__init__()
        self.gru = nn.GRU(inputs, hidden, layers, bidirectional=True)

    def forward(self, x):
        return self.gru(x)[0]


def get_inputs():
    return [torch.randn(STEPS, BATCH, INPUT)]


def get_init_inputs():
    return [INPUT, HIDDEN, LAYERS]
