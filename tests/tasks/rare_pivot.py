import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        d = torch.diagonal(x, dim1=-2, dim2=-1)
        d = torch.where(d == 0, torch.ones_like(d), d)
        return x / d.unsqueeze(-1)


def get_inputs():
    return [torch.randn(32, 64, 64)]


def get_init_inputs():
    return []
