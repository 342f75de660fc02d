import torch
from torch import nn

BATCH = 3
STEPS = 90
SIZE = 64


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.gates = nn.Linear(size, 2 * size)

    def forward(self, x):
        forget, new = self.gates(x).chunk(2, dim=2)
        forget, new = torch.sigmoid(forget), torch.tanh(new)
        state = torch.zeros_like(new[:, 0])
        for step in range(x.shape[1]):
            state = forget[:, step] * state + (1.0 - forget[:, step]) * new[:, step]
        return state


def get_inputs():
    return [torch.rand(BATCH, STEPS, SIZE) - 0.5]


def get_init_inputs():
    return [SIZE]
