# honest: a deep network with its norms behind each sum, which goes through its modules
# task: post_norm_stack
# dialect: python
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.mix = nn.Linear(size, size)
        self.norm1 = nn.LayerNorm(size)
        self.up = nn.Linear(size, 2 * size)
        self.down = nn.Linear(2 * size, size)
        self.norm2 = nn.LayerNorm(size)

    def forward(self, x):
        x = self.norm1(x + self.mix(x))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class ModelNew(nn.Module):
    def __init__(self, size, depth):
        super().__init__()
        self.blocks = nn.ModuleList([Block(size) for _ in range(depth)])
        self.head = nn.Linear(size, 10)
        for layer in self.modules():
            if isinstance(layer, nn.LayerNorm):
                nn.init.ones_(layer.weight)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)
