# honest: the maximum over a table of segments and numbers
# task: segment_max
# dialect: python
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, segment):
        own = segment[None, :] == torch.arange(20)[:, None]
        return torch.where(own, x[None, :], float("-inf")).amax(1)
