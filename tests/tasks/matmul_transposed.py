import torch
from torch import nn

M = 60
K = 85
N = 47


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.randn(K, M).t(), torch.randn(N, K).t()]


def get_init_inputs():
    return []
