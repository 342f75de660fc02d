import copy

import torch
from torch import nn

ROWS = 24
SIZE = 32


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.student = nn.Linear(size, size)
        self.teacher = copy.deepcopy(self.student)
        self.teacher.requires_grad_(False)

    def forward(self, x):
        return x + self.student(x) - self.teacher(x)


def get_inputs():
    return [torch.randn(ROWS, SIZE)]


def get_init_inputs():
    return [SIZE]
