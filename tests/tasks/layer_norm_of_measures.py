import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return F.layer_norm(x, x.shape[-1:], eps=1e-5)


def get_inputs():
    return [torch.normal(20.0, 5.0, (64, 256))]


def get_init_inputs():
    return []
