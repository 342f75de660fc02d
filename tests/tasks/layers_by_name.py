import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_proj = nn.Linear(8, 8)
        self.mlp = nn.ModuleDict(dict(c_fc=nn.Linear(8, 8), c_proj=nn.Linear(8, 8)))

    def forward(self, x):
        m = self.mlp
        return self.c_proj(x) + m.c_proj(torch.relu(m.c_fc(x)))


def get_inputs():
    return [torch.rand(4, 8)]


def get_init_inputs():
    return []
