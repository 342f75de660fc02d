import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(64, 256)

    def forward(self, tokens):
        return self.table(tokens)


def get_inputs():
    return [torch.randint(0, 64, (16,))]


def get_init_inputs():
    return []
