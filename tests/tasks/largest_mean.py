import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self, features, outputs):
        super().__init__()
        self.linear = nn.Linear(features, outputs)

    def forward(self, x):
        means = F.avg_pool1d(self.linear(x).unsqueeze(1), 4).squeeze(1)
        return (F.gelu(means) * 2.0).amax(dim=1)


def get_inputs():
    return [torch.rand(32, 64)]


def get_init_inputs():
    return [64, 32]
