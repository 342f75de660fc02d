import torch
from torch import nn


class Model(nn.Module):
    def forward(self, q, k, v, keys, values, position):
        keys[:, :, position] = k
        values[:, :, position] = v
        scores = torch.einsum("bhd,bhtd->bht", q, keys[:, :, : position + 1]) / q.shape[-1] ** 0.5
        return torch.einsum("bht,bhtd->bhd", scores.softmax(-1), values[:, :, : position + 1])


def get_inputs():
    return [
        torch.randn(2, 3, 8),
        torch.randn(2, 3, 8),
        torch.randn(2, 3, 8),
        torch.randn(2, 3, 32, 8),
        torch.randn(2, 3, 32, 8),
        20,
    ]


def get_init_inputs():
    return []
