import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, mask):
        c = torch.cumsum(mask, -1)
        return (c == 1).float() * mask


def get_inputs():
    return [(torch.rand(64, 64) < 0.3).float()]


def get_init_inputs():
    return []
