import torch
from torch import nn

COUNT = 3000


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.activation = nn.PReLU()

    def forward(self, x):
        return self.activation(x)


def get_inputs():
    return [torch.randn(COUNT)]


def get_init_inputs():
    return []
