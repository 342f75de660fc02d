import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, temperature):
        if temperature == 0.0:
            return torch.nn.functional.one_hot(x.argmax(-1), x.shape[-1]).float()
        return torch.softmax(x / temperature, -1)


def get_inputs():
    return [torch.randn(16, 1000), 0.8]


def get_init_inputs():
    return []
