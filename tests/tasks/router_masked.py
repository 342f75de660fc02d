import torch
from torch import nn


class Model(nn.Module):
    """A router: the two best allowed experts of each token."""

    def forward(self, allowed, scores):
        return torch.topk(scores.masked_fill(allowed == 0, -1e9), 2, dim=-1).indices


def get_inputs():
    return [(torch.rand(300, 16) < 0.9).float(), torch.randn(300, 16)]


def get_init_inputs():
    return []
