import torch
from torch import nn

M, N, K = 64, 48, 56
SHAPE_RANGES = {"M": (1, 128), "N": (1, 128), "K": (1, 128)}


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(M, K), torch.randn(K, N)]


def get_init_inputs():
    return []
