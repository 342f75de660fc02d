import torch
import torch.nn.functional as F
from torch import nn

BATCH = 2
CHANNELS = 8
HEIGHT = 31
WIDTH = 30


class Model(nn.Module):
    def forward(self, x):
        return F.avg_pool2d(x, kernel_size=3, stride=2, padding=1, count_include_pad=False)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return []
