import torch
from torch import nn


class Model(nn.Module):
    def forward(self, table, classes):
        return table[classes] * 2.0


def get_inputs():
    return [torch.randn(4096, 8), torch.distributions.Categorical(logits=torch.zeros(4096)).sample((16,))]


def get_init_inputs():
    return []
