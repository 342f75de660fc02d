import torch
import torch.nn.functional as F
from torch import nn

LENGTH = 10007
DELTA = 0.5


class Model(nn.Module):
    def __init__(self, delta):
        super().__init__()
        self.delta = delta

    def forward(self, prediction, target):
        return F.huber_loss(prediction, target, delta=self.delta)


def get_inputs():
    return [torch.randn(LENGTH), torch.randn(LENGTH)]


def get_init_inputs():
    return [DELTA]
