import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def forward(self, x, y):
        s = torch.zeros(10, 16).index_add(0, y, x)
        return s / torch.bincount(y, minlength=10).clamp(min=1).unsqueeze(1)


def get_inputs():
    return [torch.randn(512, 16), torch.randint(0, 10, (512,))]


def get_init_inputs():
    return []
