import torch
from torch import nn

M = 64
K = 100
N = 48


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(M, K).bfloat16(), torch.randn(K, N).bfloat16()]


def get_init_inputs():
    return []
