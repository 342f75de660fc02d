import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, length):
        kept = torch.arange(128) < length
        return torch.where(kept, x, torch.zeros(())).sum(1)


def get_inputs():
    return [torch.randn(64, 128), torch.tensor(100)]


def get_init_inputs():
    return []
