import torch
from torch import nn

BATCH, LENGTH, ROOM, WIDTH = 2, 12, 32, 16


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(BATCH, ROOM, WIDTH))
        self.register_buffer("values", torch.zeros(BATCH, ROOM, WIDTH))

    def forward(self, k, v, q):
        self.keys[:, :LENGTH] = k
        self.values[:, :LENGTH] = v
        scores = q @ self.keys[:, :LENGTH].transpose(1, 2) / WIDTH**0.5
        return torch.softmax(scores, dim=-1) @ self.values[:, :LENGTH]


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH), torch.randn(BATCH, LENGTH, WIDTH), torch.randn(BATCH, 1, WIDTH)]


def get_init_inputs():
    return []
