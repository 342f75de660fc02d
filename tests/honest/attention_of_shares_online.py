# honest: attention over keys in blocks, with a running maximum and sum
# task: attention_of_shares
# dialect: python
import math

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        most = q.new_full((*q.shape[:-1], 1), -math.inf)
        total, out = torch.zeros_like(most), torch.zeros_like(q)
        for start in range(0, k.shape[-2], 8):
            scores = q @ k[..., start : start + 8, :].transpose(-2, -1) / math.sqrt(q.shape[-1])
            new = torch.maximum(most, scores.amax(-1, keepdim=True))
            weights, kept = torch.exp(scores - new), torch.exp(most - new)
            total = total * kept + weights.sum(-1, keepdim=True)
            out = out * kept + weights @ v[..., start : start + 8, :]
            most = new
        return out / total
