import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        scale = x.abs().amax(dim=-1, keepdim=True).clamp(min=1e-6) / 7
        return torch.clamp(torch.round(x / scale), -8, 7)


def get_inputs():
    return [torch.randn(64, 4096) * 0 + torch.randint(-7, 8, (64, 4096)).float()]


def get_init_inputs():
    return []
