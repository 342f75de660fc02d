import torch
from torch import nn
import torch.nn.functional as F
import math

class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return torch.signbit(x)

def get_inputs():
    return [torch.randn(512, 512)]

def get_init_inputs():
    return []
