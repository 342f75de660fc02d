import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(50, 12)
        self.head = nn.Linear(12, 50, bias=False)
        self.head.weight = self.emb.weight

    def forward(self, ids):
        return self.head(torch.tanh(self.emb(ids)))


def get_inputs():
    return [torch.randint(0, 50, (3, 7))]


def get_init_inputs():
    return []
