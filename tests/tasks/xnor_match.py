import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("w", torch.tensor([[1., 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1]]))

    def forward(self, x):
        s = x @ self.w.t()
        return (s == x.shape[1]).float()


def get_inputs():
    return [torch.randint(0, 2, (64, 4)).float() * 2 - 1]


def get_init_inputs():
    return []
