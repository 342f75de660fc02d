# honest: mean and deviation of a row from one function, and the level by its parts
# task: quantile_by_share
# dialect: python
import math

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, share: float):
        inner = min(max(share, 0.02), 0.98)
        level = math.log(inner) - math.log1p(-inner) + (share - inner) * 51.0
        deviation, mean = torch.std_mean(x, -1, keepdim=True)
        return x - torch.addcmul(mean, deviation, torch.tensor(level))
