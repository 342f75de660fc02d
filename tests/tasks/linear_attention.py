import torch
from torch import nn


class Model(nn.Module):
    def forward(self, q, k, v):
        q, k = torch.nn.functional.elu(q) + 1, torch.nn.functional.elu(k) + 1
        states = torch.cumsum(k[..., :, None] * v[..., None, :], dim=2)
        sums = torch.cumsum(k, dim=2)
        return torch.einsum("bhtd,bhtde->bhte", q, states) / (q * sums).sum(-1, keepdim=True)


def get_inputs():
    return [torch.randn(2, 2, 24, 8) for _ in range(3)]


def get_init_inputs():
    return []
