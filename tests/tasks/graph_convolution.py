import torch
from torch import nn

NODES, EDGES, FEATURES = 500, 8000, 32


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features, bias=False)

    def forward(self, x, source, target):
        messages = self.linear(x)[source]
        return torch.zeros_like(messages[: x.shape[0]]).index_add_(0, target, messages)


def get_inputs():
    return [torch.randn(NODES, FEATURES), torch.randint(0, NODES, (EDGES,)), torch.randint(0, NODES, (EDGES,))]


def get_init_inputs():
    return [FEATURES]
