import torch
from torch import nn
import torch.nn.functional as F
import math

class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return F.conv2d(x, torch.ones(1,1,3,3), padding=1)

def get_inputs():
    return [(torch.rand(4,1,64,64) > 0.9).float()]

def get_init_inputs():
    return []
