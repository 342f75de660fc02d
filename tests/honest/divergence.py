# honest: a divergence that is zero where a target is
# task: divergence
# dialect: python
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, p, t):
        return (torch.xlogy(t, t) - t * p.log()).sum() / p.shape[0]
