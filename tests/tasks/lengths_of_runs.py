import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        starts = torch.cat([torch.ones(8, 1, dtype=torch.bool), x[:, 1:] != x[:, :-1]], 1)
        places = torch.arange(x.shape[1])
        return places - torch.where(starts, places, 0).cummax(1).values + 1


def get_inputs():
    return [torch.randint(0, 3, (8, 64))]


def get_init_inputs():
    return []
