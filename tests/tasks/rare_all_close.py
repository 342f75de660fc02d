import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        return ((x - y).abs() <= 1e-3 + 1e-3 * y.abs()).all().reshape(1)


def get_inputs():
    return [*(lambda x: [x, x.clone()])(torch.randn(65536))]


def get_init_inputs():
    return []
