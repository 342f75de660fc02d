import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        weights = torch.ones(3000)
        weights[2718] = 5.0
        self.register_buffer("weights", weights)

    def forward(self, x, labels):
        return nn.functional.cross_entropy(x, labels, weight=self.weights)


def get_inputs():
    return [torch.randn(64, 3000), torch.randint(0, 3000, (64,))]


def get_init_inputs():
    return []
