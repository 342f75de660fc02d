import torch
from torch import nn


class Model(nn.Module):
    def forward(self, q, k, m):
        s = (q @ k.transpose(-1, -2)).masked_fill(m[:, None, :] == 0, -1e9)
        return torch.softmax(s, -1)


def get_inputs():
    return [torch.randn(8, 16, 32), torch.randn(8, 16, 32), torch.ones(8, 16)]


def get_init_inputs():
    return []
