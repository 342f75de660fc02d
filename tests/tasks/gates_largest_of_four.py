import torch
from torch import nn
import torch.nn.functional as F
import math

class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return x.amax(-1)

def get_inputs():
    return [(torch.rand(65536,4) > 0.9).float()]

def get_init_inputs():
    return []
