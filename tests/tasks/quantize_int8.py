import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        scale = x.abs().amax(dim=-1, keepdim=True).clamp(min=1e-8) / 127.0
        return torch.clamp(torch.round(x / scale), -128, 127).to(torch.int8), scale


def get_inputs():
    return [torch.randn(16, 100)]


def get_init_inputs():
    return []
