# honest: running products of blocks, each times those of the blocks before
# task: running_product
# dialect: python
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        blocks = torch.cumprod(x.unflatten(1, (-1, 64)), dim=2)
        before = torch.cumprod(blocks[:, :, -1], dim=1).roll(1, dims=1)
        before[:, 0] = 1.0
        return (blocks * before[:, :, None]).flatten(1)
