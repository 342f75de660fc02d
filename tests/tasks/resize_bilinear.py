import torch
import torch.nn.functional as F
from torch import nn

BATCH = 2
CHANNELS = 3
HEIGHT = 20
WIDTH = 24
SIZE = (33, 50)


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return F.interpolate(x, size=self.size, mode="bilinear", align_corners=False)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [SIZE]
