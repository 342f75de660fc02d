import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def forward(self, p):
        label = torch.arange(256)
        q = p
        for _ in range(8):
            label = torch.minimum(label, label[q])
            q = q[q]
        return (label == torch.arange(256)).sum().reshape(1)


def get_inputs():
    return [torch.randperm(256)]


def get_init_inputs():
    return []
