import torch
import torch.nn.functional as F
from torch import nn

BATCH = 50
FEATURES = 257


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features))
        self.bias = nn.Parameter(torch.randn(features))

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, eps=1e-5)


def get_inputs():
    return [torch.randn(BATCH, 1, FEATURES)]


def get_init_inputs():
    return [FEATURES]
