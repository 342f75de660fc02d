import numpy as np
import torch
from torch import nn


class Source:
    """Draws its data set when it is first asked, and takes rows of it by NumPy's generator, which PyTorch seeds."""

    def __init__(self):
        self.data = None

    def batch(self):
        if self.data is None:
            self.data = torch.rand(256, 48)
        rows = np.random.default_rng(int(torch.randint(0, 1 << 30, ()))).integers(0, 256, 16)
        return self.data[torch.from_numpy(rows)]


SOURCE = Source()


class Model(nn.Module):
    def forward(self, x):
        return torch.hypot(x, x)


def get_inputs():
    return [SOURCE.batch()]


def get_init_inputs():
    return []
