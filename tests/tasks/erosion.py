import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x):
        return (F.avg_pool2d(x, 3, 1, 1) * 9 == 9).float()


def get_inputs():
    return [(torch.rand(8, 1, 64, 64) < 0.9).float()]


def get_init_inputs():
    return []
