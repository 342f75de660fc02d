# honest: multiplied by the inverse, which is infinite of zero
# task: divided_by_counts
# dialect: python
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, n):
        return x * n.float().reciprocal()
