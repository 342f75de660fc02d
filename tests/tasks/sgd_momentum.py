import torch
from torch import nn

SIZE = 5003
LEARNING_RATE = 0.01
MOMENTUM = 0.9


class Model(nn.Module):
    def __init__(self, learning_rate, momentum):
        super().__init__()
        self.learning_rate = learning_rate
        self.momentum = momentum

    def forward(self, weight, gradient, velocity):
        velocity.mul_(self.momentum).add_(gradient)
        weight.sub_(velocity, alpha=self.learning_rate)
        return weight


def get_inputs():
    return [torch.randn(SIZE), torch.randn(SIZE), torch.randn(SIZE)]


def get_init_inputs():
    return [LEARNING_RATE, MOMENTUM]
