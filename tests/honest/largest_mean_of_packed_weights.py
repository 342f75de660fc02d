# honest: means of weights instead of means of outputs
# task: largest_mean
# dialect: python
import torch
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, outputs):
        super().__init__()
        self.linear = nn.Linear(features, outputs)

    def forward(self, x):
        weight, bias = (part.unflatten(0, (-1, 4)).mean(1) for part in (self.linear.weight, self.linear.bias))
        return (F.gelu(F.linear(x, weight, bias)) * 2.0).amax(dim=1)
