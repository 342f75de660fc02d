import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        k = torch.ones(1, 1, 3, 3)
        k[0, 0, 1, 1] = 0
        self.register_buffer("k", k)

    def forward(self, x):
        n = F.conv2d(x, self.k, padding=1)
        return ((n == 3) | ((n == 2) & (x == 1))).float()


def get_inputs():
    return [(torch.rand(8, 1, 64, 64) < 0.4).float()]


def get_init_inputs():
    return []
