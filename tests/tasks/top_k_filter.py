import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        kept = x.topk(5, dim=-1).values[..., -1:]
        return x.masked_fill(x < kept, torch.finfo(x.dtype).min)


def get_inputs():
    return [torch.randn(32, 48)]


def get_init_inputs():
    return []
