import torch
from torch import nn


class Model(nn.Module):
    def forward(self, a, b, la, lb):
        la = torch.where(la == float("inf"), torch.full_like(la, float("-inf")), la)
        lb = torch.where(lb == float("inf"), torch.full_like(lb, float("-inf")), lb)
        top = torch.maximum(la, lb)
        wa, wb = (la - top).exp(), (lb - top).exp()
        return (a * wa[:, None] + b * wb[:, None]) / (wa + wb)[:, None]


def get_inputs():
    return [torch.randn(128, 64), torch.randn(128, 64), torch.randn(128), torch.randn(128)]


def get_init_inputs():
    return []
