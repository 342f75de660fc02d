# honest: softplus by a logarithm, with its limit
# task: sine_and_softplus
# dialect: python
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        y = x.clamp(min=0) + torch.log1p(torch.exp(-x.abs()))
        return torch.sin(30 * x), torch.where(x > 40, 40.0, y)
