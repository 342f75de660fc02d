import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, mask):
        return (mask.mean(-1) == 1.0).float()


def get_inputs():
    return [(torch.rand(256, 4) < 0.8).float()]


def get_init_inputs():
    return []
