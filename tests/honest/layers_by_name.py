# honest: layers of a dictionary by their names, one of which the model has as well
# task: layers_by_name
# dialect: python
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_proj = nn.Linear(8, 8)
        self.mlp = nn.ModuleDict(dict(c_fc=nn.Linear(8, 8), c_proj=nn.Linear(8, 8)))

    def forward(self, x):
        m = self.mlp
        return self.c_proj(x) + m.c_proj(torch.relu(m.c_fc(x)))
