import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        s = x.abs().max() / 127.0
        return torch.clamp(torch.round(x / s), -128, 127).to(torch.int8), s


def get_inputs():
    return [torch.randn(515, 1003)]


def get_init_inputs():
    return []
