import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x):
        y, w = self.attn(x, x, x, need_weights=True)
        return x + y, w


def get_inputs():
    return [torch.randn(2, 9, 16)]


def get_init_inputs():
    return []
