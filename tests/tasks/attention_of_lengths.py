import torch
import torch.nn.functional as F
from torch import nn

BATCH, QUERIES, KEYS, WIDTH = 4, 10, 20, 16


class Model(nn.Module):
    def forward(self, q, k, v, lengths):
        scores = q @ k.transpose(-1, -2) / WIDTH**0.5
        hidden = torch.arange(KEYS)[None, :] >= lengths[:, None]
        return F.softmax(scores.masked_fill(hidden[:, None, :], -1e9), dim=-1) @ v


def get_inputs():
    keys = BATCH, KEYS, WIDTH
    return [torch.randn(BATCH, QUERIES, WIDTH), torch.randn(keys), torch.randn(keys), torch.randint(1, KEYS + 1, (BATCH,))]


def get_init_inputs():
    return []
