import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, lengths):
        kept = (torch.arange(x.shape[1])[None] < lengths[:, None]).float()
        return (x * kept).sum(dim=1) / lengths


def get_inputs():
    return [torch.randn(64, 100), torch.full((64,), 100)]


def get_init_inputs():
    return []
