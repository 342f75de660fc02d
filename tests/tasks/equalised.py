import torch
from torch import nn


class Model(nn.Module):
    """Histogram equalisation of grey images. An image of one grey stays as it is."""

    def forward(self, x):
        grey = x.flatten(1).long()
        counts = torch.zeros(len(x), 256, dtype=torch.int64).scatter_add_(1, grey, torch.ones_like(grey))
        below = counts.cumsum(1)
        least = torch.where(counts > 0, below, torch.full_like(below, 1 << 40)).min(1, keepdim=True).values
        rest = grey.shape[1] - least
        spread = ((below - least).clamp(min=0) * 255 + rest // 2) // rest.clamp(min=1)
        table = torch.where(rest == 0, torch.arange(256)[None], spread)
        return table.gather(1, grey).reshape(x.shape).to(torch.uint8)


def get_inputs():
    return [torch.randint(0, 256, (4, 24, 24), dtype=torch.uint8)]


def get_init_inputs():
    return []
