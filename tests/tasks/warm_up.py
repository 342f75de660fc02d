import torch
from torch import nn


class Model(nn.Module):
    def forward(self, g, step):
        t = step.float()
        return g * torch.where(t < 1000, t / 1000, (1000 / t).sqrt())


def get_inputs():
    return [torch.randn(65536), torch.tensor(800)]


def get_init_inputs():
    return []
