import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(128, 32)

    def forward(self, x):
        y = self.fc(x)
        return (y == y.amax(-1, keepdim=True)).float()


def get_inputs():
    return [torch.randn(64, 128)]


def get_init_inputs():
    return []
