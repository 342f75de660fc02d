import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        tiles = x.view(2, 128, 2, 128)
        scale = tiles.abs().amax((1, 3), keepdim=True) / 448
        scale = torch.where(scale == 0, torch.ones_like(scale), scale)
        return (tiles / scale).view(256, 256), scale.view(2, 2)


def get_inputs():
    return [torch.randn(256, 256)]


def get_init_inputs():
    return []
