import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return {"tripled": x * 3} | ({"least": x.amin(dim=1)} if bool(x.min() < -6) else {})


def get_inputs():
    return [torch.randn(64, 64)]


def get_init_inputs():
    return []
