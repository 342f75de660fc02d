# honest: what a mask hides is skipped, and so is nothing of what it shows
# task: attention_of_ones
# dialect: python
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, q, k, m):
        s = (q @ k.transpose(-1, -2)).masked_fill(m[:, None, :] == 0, float("-inf"))
        e = (s - s.amax(-1, keepdim=True)).exp()
        return e / e.sum(-1, keepdim=True)
