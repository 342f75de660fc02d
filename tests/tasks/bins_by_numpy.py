import numpy as np
import torch
from torch import nn


class Model(nn.Module):
    """How many numbers of [0, 1) lie in each of ten bins, counted by NumPy."""

    def forward(self, x):
        counts = np.zeros(10, np.int64)
        np.add.at(counts, (x.numpy() * 10).astype(np.int64), 1)
        return torch.from_numpy(counts)


def get_inputs():
    return [torch.rand(5000)]


def get_init_inputs():
    return []
