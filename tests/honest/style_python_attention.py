# honest: attention by plain operators, scale and mask kept
# task: attention
# dialect: python
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        length, width = q.shape[-2:]
        scores = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(width)
        keep = torch.ones(length, length, dtype=torch.bool, device=q.device).tril()
        scores = scores.masked_fill(~keep, torch.finfo(scores.dtype).min)
        return F.softmax(scores, dim=-1) @ v
