import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        d = (x.unsqueeze(1) - x.unsqueeze(0)).pow(2).sum(-1)
        d = d.masked_fill(d == 0, float('inf'))
        return d.amin(-1)


def get_inputs():
    return [torch.randn(128, 16)]


def get_init_inputs():
    return []
