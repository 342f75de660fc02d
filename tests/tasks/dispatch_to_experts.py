import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, experts):
        token = torch.argsort(experts.flatten(), stable=True) // 2
        counts = torch.bincount(experts.flatten(), minlength=16)
        sums = torch.zeros(16, 32).index_add(0, experts.flatten(), x.repeat_interleave(2, 0))
        return sums / counts.clamp(min=1).unsqueeze(-1), token


def get_inputs():
    return [torch.randn(1024, 32), torch.randint(0, 16, (1024, 2))]


def get_init_inputs():
    return []
