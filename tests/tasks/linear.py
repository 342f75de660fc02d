import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, features_in, features_out):
        super().__init__()
        self.linear = nn.Linear(features_in, features_out)

    def forward(self, x):
        return self.linear(x)


def get_inputs():
    return [torch.randn(64, 128)]


def get_init_inputs():
    return [128, 64]
