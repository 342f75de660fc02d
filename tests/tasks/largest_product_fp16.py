import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, keys):
        return (x @ keys.t()).argmax(1)


def get_inputs():
    return [torch.randn(32, 16).half(), torch.randn(20, 16).half()]


def get_init_inputs():
    return []
