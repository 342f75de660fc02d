import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def forward(self, m):
        return torch.where(m.any(0), m.to(torch.uint8).argmax(0), -1)


def get_inputs():
    return [torch.randint(0, 2, (256, 32)).bool()]


def get_init_inputs():
    return []
