import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x.float().long()


def get_inputs():
    return [torch.randint(0, 2**31, (96, 128))]


def get_init_inputs():
    return []
