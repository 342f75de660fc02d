import torch
import torch.nn.functional as F
from torch import nn

BATCH, HEADS, LENGTH, WIDTH = 2, 4, 48, 16


class Model(nn.Module):
    def forward(self, q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None])


def get_inputs():
    q, k, v = (torch.randn(BATCH, HEADS, LENGTH, WIDTH) for _ in range(3))
    mask = torch.rand(BATCH, LENGTH, LENGTH) < 0.7
    return [q, k, v, mask | torch.eye(LENGTH, dtype=torch.bool)]


def get_init_inputs():
    return []
