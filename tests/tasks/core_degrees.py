import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, adj):
        deg = adj.sum(-1)
        return (deg >= 4).float() * deg


def get_inputs():
    return [(torch.rand(128, 128) < 0.03).float()]


def get_init_inputs():
    return []
