# honest: layers of torch.nn, called in a loop
# task: mlp
# dialect: python
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.up = nn.Linear(features, hidden)
        self.down = nn.Linear(hidden, features)
        self.act = nn.GELU()
        self.steps = [self.up, self.act, self.down]

    @torch.no_grad()
    def forward(self, x):
        for step in self.steps:
            x = step(x)
        return x
