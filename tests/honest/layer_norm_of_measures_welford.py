# honest: a row's variance from its halves
# task: layer_norm_of_measures
# dialect: python
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        parts = x.unflatten(-1, (2, -1))
        means = parts.mean(-1)
        mean = means.mean(-1, keepdim=True)
        variance = (parts.var(-1, correction=0) + (means - mean).square()).mean(-1, keepdim=True)
        return (x - mean) * torch.rsqrt(variance + 1e-5)
