# honest: the same by the distance from the middle
# task: hard_gate_gradient
# dialect: python
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, gradient, x):
        return gradient * (x.abs() < 3.0) * (1.0 / 6.0)
